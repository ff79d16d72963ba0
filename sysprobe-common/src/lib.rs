//! Definitions that the BPF programs and the agent share byte for byte: layouts of map values and events,
//! names and limits of maps, and the histogram's arithmetic.
//!
//! One module per domain, named as in `sysprobe-ebpf` and `sysprobe-agent`. Integers and arrays only,
//! `repr(C)`, no hidden padding: both sides see the same bytes. Nothing here allocates, panics or makes a
//! system call.
#![no_std]

pub mod block;
pub mod cast;
pub mod cgroup;
pub mod hist;
pub mod lanes;
pub mod net;
pub mod operation;
pub mod reclaim;
pub mod rxpath;
pub mod scan;
pub mod sched;
pub mod shard;
pub mod shared;
pub mod slot;
pub mod storage;
pub mod tcp;
pub mod traffic;
pub mod vfs;

/// 2^64 divided by the golden ratio. A multiplication by it spreads a value over the upper bits.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
