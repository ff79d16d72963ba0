//! Helpers that several kernel programs use: reading members at offsets that the agent found in the kernel's
//! BTF, and maps that `aya-ebpf` does not have.
//!
//! Everything in this crate is inlined, because BPF-to-BPF calls cost more than these bodies. Domains live in
//! `bin/`, one object each: a kernel that lacks a map type or a hook loses that domain only. The functions
//! there that count losses are not inlined: they rarely run, and would make every program longer.
#![no_std]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

pub mod accumulate;
pub mod argument;
pub mod atomic;
pub mod branchless;
pub mod cgroup;
pub mod clock;
pub mod counter;
pub mod iteration;
pub mod kernel;
pub mod packet;
pub mod registers;
pub mod shard;
pub mod shared;
pub mod slots;
pub mod socket;
pub mod storage;
pub mod volatile;

pub use sysprobe_common::GOLDEN;

/// The end of every object: the licence, which the kernel's tracing helpers require, and the panic handler,
/// which the compiler requires although nothing here can panic.
#[macro_export]
macro_rules! object {
    () => {
        #[cfg(not(test))]
        #[panic_handler]
        fn panic(_info: &core::panic::PanicInfo) -> ! {
            loop {}
        }

        #[unsafe(link_section = "license")]
        #[unsafe(no_mangle)]
        static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
    };
}

/// Read-only globals that the agent sets before loading: offsets of members, and settings.
#[macro_export]
macro_rules! globals {
    ($($(#[$comment:meta])* $name:ident),+ $(,)?) => {
        $($(#[$comment])*
        #[unsafe(no_mangle)]
        pub static $name: aya_ebpf::Global<u32> = aya_ebpf::Global::new(0);)+
    };
}
