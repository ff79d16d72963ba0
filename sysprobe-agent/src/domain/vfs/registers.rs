//! The offsets of registers in a `pt_regs`, by architecture. Debuggers see this layout (`ptrace(2)`), so it
//! never changes.

macro_rules! offset {
    ($field:ident) => {
        number(std::mem::offset_of!(libc::user_regs_struct, $field))
    };
}

#[expect(clippy::cast_possible_truncation, reason = "a few hundred bytes")]
const fn number(offset: usize) -> u32 {
    offset as u32
}

/// The bytes that a function's return pops off the stack; the object with kprobes needs them.
pub(super) const RETURN_ADDRESS: (&str, u32) =
    ("CFG_RETURN_ADDRESS", if cfg!(target_arch = "x86_64") { 8 } else { 0 });

pub(super) const GLOBALS: [(&str, u32); 7] = registers();

/// `TS_COMPAT` of `arch/x86/include/asm/thread_info.h`.
#[cfg(target_arch = "x86_64")]
const fn registers() -> [(&'static str, u32); 7] {
    [
        ("OFF_REGISTER_ARGUMENT_0", offset!(rdi)),
        ("OFF_REGISTER_ARGUMENT_1", offset!(rsi)),
        ("OFF_REGISTER_ARGUMENT_2", offset!(rdx)),
        ("OFF_REGISTER_ARGUMENT_3", offset!(r10)),
        ("OFF_REGISTER_SYSCALL", offset!(orig_rax)),
        ("OFF_REGISTER_STACK", offset!(rsp)),
        ("CFG_COMPAT", 2),
    ]
}

/// `TIF_32BIT` of `arch/arm64/include/asm/thread_info.h`. The system call's number follows the part that
/// debuggers see.
#[cfg(target_arch = "aarch64")]
const fn registers() -> [(&'static str, u32); 7] {
    [
        ("OFF_REGISTER_ARGUMENT_0", offset!(regs)),
        ("OFF_REGISTER_ARGUMENT_1", offset!(regs) + 8),
        ("OFF_REGISTER_ARGUMENT_2", offset!(regs) + 16),
        ("OFF_REGISTER_ARGUMENT_3", offset!(regs) + 24),
        ("OFF_REGISTER_SYSCALL", number(size_of::<libc::user_regs_struct>()) + 8),
        ("OFF_REGISTER_STACK", offset!(sp)),
        ("CFG_COMPAT", 1 << 22),
    ]
}
