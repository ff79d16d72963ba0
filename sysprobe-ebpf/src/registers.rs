//! The registers of a task as a `pt_regs` keeps them. Where each is depends on the architecture only: the
//! agent says.

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

/// The arguments of a system call. Each is read when it is asked for: most calls need one.
#[derive(Clone, Copy)]
pub struct Arguments<R>(R);

impl<R: Object> Arguments<R> {
    #[inline(always)]
    pub const fn of(registers: R) -> Self {
        Self(registers)
    }

    /// An argument by its place; beyond the last, that. 0 if it cannot be read.
    #[inline(always)]
    #[must_use]
    pub fn get(self, place: u32) -> u64 {
        let argument = match place {
            0 => self.0.u64(&OFF_REGISTER_ARGUMENT_0),
            1 => self.0.u64(&OFF_REGISTER_ARGUMENT_1),
            2 => self.0.u64(&OFF_REGISTER_ARGUMENT_2),
            _ => self.0.u64(&OFF_REGISTER_ARGUMENT_3),
        };
        argument.unwrap_or(0)
    }
}

/// The stack pointer in the registers that a probe is called with.
#[inline(always)]
#[must_use]
pub fn stack(ctx: &impl EbpfContext) -> u64 {
    read_u64(ctx.as_ptr() as u64, &OFF_REGISTER_STACK).unwrap_or(0)
}
