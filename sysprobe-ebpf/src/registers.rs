//! The registers of a task in `pt_regs`. Their offsets depend on the architecture only; the agent sets them.

use aya_ebpf::EbpfContext;

use crate::globals;
use crate::kernel::{Object, read_u64};

globals!(
    /// The first four arguments of a system call.
    OFF_REGISTER_ARGUMENT_0,
    OFF_REGISTER_ARGUMENT_1,
    OFF_REGISTER_ARGUMENT_2,
    OFF_REGISTER_ARGUMENT_3,
    /// The number of the system call that the task is in.
    OFF_REGISTER_SYSCALL,
    OFF_REGISTER_STACK,
);

/// The arguments of a system call, read on demand: most calls need only one.
#[derive(Clone, Copy)]
pub struct Arguments<R>(R);

impl<R: Object> Arguments<R> {
    #[inline(always)]
    pub const fn of(registers: R) -> Self {
        Self(registers)
    }

    /// An argument by its position; beyond the last position, the last argument. 0 if it cannot be read.
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
