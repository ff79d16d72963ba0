//! The clock for all measured durations.

use aya_ebpf::helpers::bpf_ktime_get_ns;

/// Nanoseconds of `CLOCK_MONOTONIC`, which stands still while the machine is suspended.
#[must_use]
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: the helper only reads a clock.
    unsafe { bpf_ktime_get_ns() }
}
