//! The sysprobe agent as a library: `main.rs` only parses arguments and maps errors to exit codes;
//! integration tests use this crate.
//!
//! Modules are grouped by layer, the lowest first. ARCHITECTURE has the order within them.

// Data.
pub mod load_average;
pub mod probe;
pub mod snapshot;
pub mod source;

// Facts and names.
pub mod cgroup;
pub mod config;
pub mod host;
pub mod pods;

// Kernel.
pub mod bpf;
pub mod storage;

// Plan.
pub mod plan;

// Domains: what they share, one module for each, and their table.
pub mod domain;
pub mod in_progress;
mod operation;
pub mod slots;
mod times;

pub mod block;
pub mod cgroup_events;
pub mod cpu;
pub mod memory;
pub mod net;
pub mod pressure;
pub mod reclaim;
pub mod rxpath;
pub mod sched;
pub mod tcp;
pub mod vfs;

pub mod domain_table;

// Engine.
pub mod engine;
mod workload;

// Service.
pub mod agent;
mod client;
pub mod metrics;
mod process;

// Commands.
pub mod blame;
pub mod check;
pub mod cli;
mod completion;
mod docs;
pub mod latency;
pub mod probes;
mod schema;
pub mod show;
pub mod top;
pub mod use_report;

#[cfg(test)]
mod heap_meter;
