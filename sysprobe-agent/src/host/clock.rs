//! The clock of windows and of `task_struct.start_time`, and the length of the kernel's ticks.

use std::sync::LazyLock;
use std::time::Duration;

/// `CLOCK_MONOTONIC`, which no clock step touches.
#[must_use]
pub fn monotonic() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the address is of a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // It starts at boot and its fraction is below a second, so neither cast can change a value.
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

static TICK_NS: LazyLock<u64> = LazyLock::new(|| {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    tick.tv_nsec.cast_unsigned()
});

/// How long a jiffy is in nanoseconds: the coarse clocks move once in each.
#[must_use]
pub fn tick_ns() -> u64 {
    *TICK_NS
}
