//! How much of the heap a piece of code takes, for tests of what has a bound: the test's own thread is
//! measured alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// What the thread has allocated and not yet given back, and the most there was. Less than nothing where
    /// it frees what another has allocated.
    static TAKEN: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Meter;

#[global_allocator]
static METER: Meter = Meter;

/// What `act` returns, and the most bytes that it had beyond those that were there before.
pub(crate) fn peak_of<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = begin();
    let result = act();
    (result, peak_since(before))
}

/// From here on the most is measured.
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
    // A thread that ends has no meter any more.
    let counted = TAKEN.try_with(|taken| {
        let (now, most) = taken.get();
        taken.set((now + bytes, most.max(now + bytes)));
    });
    counted.unwrap_or_default();
}

// SAFETY: all work is done by the system's allocator, whose results are handed on as they are; counting
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
