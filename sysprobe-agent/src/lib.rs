//! The sysprobe agent as a library: `main.rs` only calls [`cli::Cli`], and integration tests use this crate.
//!
//! Modules are grouped by layer, the lowest first. ARCHITECTURE has the order within them.

// Data.
pub mod probe;
pub mod snapshot;

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

// Domains.
pub mod domain;

// Engine.
pub mod engine;

// Service.
pub mod agent;
pub mod metrics;

// Command line.
pub mod cli;

#[cfg(test)]
mod heap_meter;
