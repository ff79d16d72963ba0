//! Atomic instructions, which `core` does not offer for this target. The addition without a result
//! (`BPF_ATOMIC | BPF_ADD`, XADD before 5.12) is in every kernel with BPF. Compare and exchange needs 5.12.

/// Adds to a counter that other CPUs add to as well.
#[inline(always)]
pub fn add_u64(counter: &mut u64, value: u64) {
    #[cfg(target_arch = "bpf")]
    // SAFETY: a live, aligned reference; the instruction touches these eight bytes only.
    unsafe {
        core::arch::asm!("lock *(u64 *)({counter} + 0) += \
                          {value}", counter = in(reg) counter, value = in(reg) value);
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

/// As [`replace_u64`], for four bytes.
#[inline(always)]
#[must_use]
pub fn replace_u32(place: &mut u32, expected: u32, new: u32) -> bool {
    #[cfg(target_arch = "bpf")]
    {
        let found: u64;
        // SAFETY: a live, aligned reference; the instruction touches these four bytes and r0 only.
        unsafe {
            core::arch::asm!(
                "w0 = cmpxchg32_32(r1 + 0, w0, w2)",
                in("r1") place,
                in("r2") u64::from(new),
                inlateout("r0") u64::from(expected) => found,
            );
        }
        found == u64::from(expected)
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        let matches = *place == expected;
        if matches {
            *place = new;
        }
        matches
    }
}

/// Compare and exchange: replaces `expected` by `new`, and returns whether it did. Needs 5.12.
#[inline(always)]
#[must_use]
pub fn replace_u64(place: &mut u64, expected: u64, new: u64) -> bool {
    #[cfg(target_arch = "bpf")]
    {
        let found: u64;
        // SAFETY: a live, aligned reference; the instruction touches these eight bytes and r0 only.
        unsafe {
            core::arch::asm!(
                "r0 = cmpxchg_64({place} + 0, r0, {new})",
                place = in(reg) place,
                new = in(reg) new,
                inlateout("r0") expected => found,
            );
        }
        found == expected
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        let matches = *place == expected;
        if matches {
            *place = new;
        }
        matches
    }
}
