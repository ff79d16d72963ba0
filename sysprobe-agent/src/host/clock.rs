//! The monotonic clock (of windows and `task_struct.start_time`), the wall clock, CPU time, and the length of
//! the kernel's ticks.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

/// `CLOCK_MONOTONIC`, which clock steps do not affect.
#[must_use]
pub fn monotonic() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the address is of a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // It starts at boot and its fraction is below a second, so neither cast can change a value.
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// [`monotonic`] in nanoseconds, the unit of the programs.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(monotonic())
}

/// A duration in the unit of the programs.
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The wall-clock time of a past instant, in milliseconds since the Unix epoch. Call it soon after that
/// instant, so that a step of the wall clock in between is unlikely.
#[must_use]
pub fn unix_ms(instant: Instant) -> u64 {
    let wall = SystemTime::now().checked_sub(instant.elapsed());
    let since_epoch = wall.and_then(|wall| wall.duration_since(SystemTime::UNIX_EPOCH).ok());
    since_epoch.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The calling thread's CPU time.
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

/// The length of a jiffy in nanoseconds: the coarse clocks advance once per jiffy.
#[must_use]
pub fn tick_ns() -> u64 {
    *TICK_NS
}
