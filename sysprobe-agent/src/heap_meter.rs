//! Measures the heap use of a piece of code, for tests of bounded structures. Only the test's own thread is
//! measured.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that the thread has allocated and not freed, and their maximum. Negative if it frees memory that
    /// another thread allocated.
    static TAKEN: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Meter;

#[global_allocator]
static METER: Meter = Meter;

/// The result of `act`, and the most heap bytes in use during it beyond those in use before.
pub(crate) fn peak_of<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = begin();
    let result = act();
    (result, peak_since(before))
}

/// Starts a new measurement of the maximum.
pub(crate) fn begin() -> isize {
    let (now, _) = TAKEN.get();
    TAKEN.set((now, now));
    now
}

pub(crate) fn peak_since(begin: isize) -> usize {
    usize::try_from(TAKEN.get().1 - begin).unwrap_or(0)
}

fn count(bytes: usize, sign: isize) {
    let bytes = isize::try_from(bytes).unwrap_or(isize::MAX) * sign;
    // An exiting thread no longer has a meter.
    let counted = TAKEN.try_with(|taken| {
        let (now, most) = taken.get();
        taken.set((now + bytes, most.max(now + bytes)));
    });
    counted.unwrap_or_default();
}

// SAFETY: the system's allocator does all the work, and its results are returned unchanged; counting
// allocates nothing.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(address, layout) }
    }
}
