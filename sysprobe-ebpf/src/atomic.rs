//! Atomic additions that return nothing. `core` offers none for this target, which has no compare-and-swap; the
//! instruction (`BPF_ATOMIC | BPF_ADD`, known as XADD before 5.12) is in every kernel that has BPF.

/// Adds to a counter that other CPUs add to as well.
#[inline(always)]
pub fn add_u64(counter: &mut u64, value: u64) {
    #[cfg(target_arch = "bpf")]
    // SAFETY: a live, aligned reference; the instruction touches these eight bytes only.
    unsafe {
        core::arch::asm!("lock *(u64 *)({counter} + 0) += {value}", counter = in(reg) counter, value = in(reg) value);
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        *counter += value;
    }
}

/// As [`add_u64`], for four bytes.
#[inline(always)]
pub fn add_u32(counter: &mut u32, value: u32) {
    #[cfg(target_arch = "bpf")]
    // SAFETY: as in `add_u64`; the instruction uses the low half of the register.
    unsafe {
        core::arch::asm!(
            "lock *(u32 *)({counter} + 0) += {value}",
            counter = in(reg) counter,
            value = in(reg) u64::from(value),
        );
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        *counter = counter.wrapping_add(value);
    }
}
