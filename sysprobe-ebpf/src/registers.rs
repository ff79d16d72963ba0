//! The registers of a task as a `pt_regs` keeps them. Where each is depends on the architecture only: the agent says.

use aya_ebpf::EbpfContext;

use crate::kernel::{Object, read_u64};
use crate::settings;

settings!(
    /// The first four arguments of a system call.
    OFF_REGISTER_ARGUMENT_0,
    OFF_REGISTER_ARGUMENT_1,
    OFF_REGISTER_ARGUMENT_2,
    OFF_REGISTER_ARGUMENT_3,
    /// The number of the system call that the task is in.
    OFF_REGISTER_SYSCALL,
    OFF_REGISTER_STACK,
);

/// The arguments of a system call.
#[derive(Clone, Copy)]
pub struct Arguments([u64; 4]);

impl Arguments {
    #[inline(always)]
    pub fn of(registers: impl Object) -> Option<Self> {
        Some(Self([
            registers.u64(&OFF_REGISTER_ARGUMENT_0)?,
            registers.u64(&OFF_REGISTER_ARGUMENT_1)?,
            registers.u64(&OFF_REGISTER_ARGUMENT_2)?,
            registers.u64(&OFF_REGISTER_ARGUMENT_3)?,
        ]))
    }

    /// An argument by its place; beyond the last, that. Written out, so that the array stays in registers.
    #[inline(always)]
    #[must_use]
    pub const fn get(&self, place: u32) -> u64 {
        let [first, second, third, fourth] = self.0;
        match place {
            0 => first,
            1 => second,
            2 => third,
            _ => fourth,
        }
    }
}

/// The stack pointer in the registers that a probe is called with.
#[inline(always)]
#[must_use]
pub fn stack(ctx: &impl EbpfContext) -> u64 {
    read_u64(ctx.as_ptr() as u64, &OFF_REGISTER_STACK).unwrap_or(0)
}
