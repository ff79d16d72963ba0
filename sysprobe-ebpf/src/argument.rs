//! Tracepoint arguments whose position depends on the kernel.

use core::ffi::c_void;

/// The second argument or the first. The compiler would merge both into one load at a computed offset, which
/// the verifier refuses: a program may read its context only at constant offsets.
///
/// # Safety
///
/// `context` is that of a raw or typed tracepoint that has the argument.
#[inline(always)]
#[must_use]
pub unsafe fn second_or_first(context: *const c_void, second: bool) -> u64 {
    #[cfg(target_arch = "bpf")]
    {
        let argument: u64;
        if second {
            // SAFETY: the verifier checks that there is such an argument.
            unsafe {
                core::arch::asm!("{to} = *(u64 *)({from} + \
                                  8)", to = out(reg) argument, from = in(reg) context);
            }
        } else {
            // SAFETY: as above.
            unsafe {
                core::arch::asm!("{to} = *(u64 *)({from} + \
                                  0)", to = out(reg) argument, from = in(reg) context);
            }
        }
        argument
    }
    #[cfg(not(target_arch = "bpf"))]
    // SAFETY: the caller's promise.
    unsafe {
        context.cast::<u64>().add(usize::from(second)).read()
    }
}
