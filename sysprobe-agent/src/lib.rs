//! The sysprobe agent as a library: `main.rs` only parses arguments and maps errors to exit codes;
//! integration tests use this crate. Modules in reading order.

pub mod cli;
pub mod config;

// Facts -> plan -> effect.
pub mod bpf;
pub mod host;
pub mod plan;
pub mod probe;

// Domains, one module each.
pub mod block;
pub mod cgroup;
pub mod cpu;
pub mod memory;
pub mod net;
pub mod pods;
pub mod pressure;
pub mod reclaim;
pub mod rxpath;
pub mod sched;
pub mod slots;
pub mod storage;
pub mod tcp;
pub mod vfs;

#[cfg(test)]
mod heap_meter;
pub mod in_progress;
mod operation;
mod times;

pub mod engine;
mod workload;

// All readers get the same snapshot.
pub mod metrics;
mod process;
pub mod snapshot;

// The commands.
pub mod agent;
pub mod blame;
pub mod check;
mod client;
mod completion;
mod docs;
pub mod latency;
pub mod probes;
mod schema;
pub mod show;
pub mod top;
pub mod use_report;
