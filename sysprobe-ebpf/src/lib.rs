//! Helpers that several kernel programs use: reading members at offsets that the agent found in the kernel's BTF, and
//! maps that `aya-ebpf` does not have.
//!
//! Everything is inlined: BPF-to-BPF calls cost more than these bodies. Domains live in `bin/`, one object each.
#![no_std]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

pub mod atomic;
pub mod cgroup;
pub mod counter;
pub mod kernel;
pub mod task_storage;
