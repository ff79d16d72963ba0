//! The clock of windows and of `task_struct.start_time`, the wall clock, and the length of the kernel's
//! ticks.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

/// `CLOCK_MONOTONIC`, which no clock step touches.
#[must_use]
pub fn monotonic() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the address is of a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // It starts at boot and its fraction is below a second, so neither cast can change a value.
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The same in nanoseconds, as programs have it.
#[must_use]
pub fn monotonic_ns() -> u64 {
    u64::try_from(monotonic().as_nanos()).unwrap_or(u64::MAX)
}

/// What the wall clock says of a moment in the past, in milliseconds since the Unix epoch. Asked soon after
/// that moment, so that a step of the wall clock in between is unlikely.
#[must_use]
pub fn unix_ms(moment: Instant) -> u64 {
    let wall = SystemTime::now().checked_sub(moment.elapsed());
    let since_epoch = wall.and_then(|wall| wall.duration_since(SystemTime::UNIX_EPOCH).ok());
    since_epoch.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How much of a CPU's time the calling thread has had.
#[must_use]
pub fn thread_time() -> Duration {
    let mut had = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut had) };
    Duration::new(had.tv_sec.cast_unsigned(), u32::try_from(had.tv_nsec).unwrap_or(0))
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
