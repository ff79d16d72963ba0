//! Events that the kernel hides from all programs: tests that count each event allow for them where they
//! exist.

mod support;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use support::hidden::{count_all, hides_supervisor};
use support::left_out;

#[test]
fn a_failed_count_is_repeated_only_where_the_kernel_hides_events() {
    let hides = hides_supervisor();
    if hides {
        left_out("events while process 1 has the CPU", "this kernel hides them from programs");
    }
    let attempts = Cell::new(0);
    let failed = catch_unwind(AssertUnwindSafe(|| {
        count_all(|| {
            attempts.set(attempts.get() + 1);
            panic!("as if an event were missing");
        });
    }));
    assert!(failed.is_err(), "a test that always fails has failed");
    assert_eq!(attempts.get(), if hides { 3 } else { 1 });
    attempts.set(0);
    count_all(|| attempts.set(attempts.get() + 1));
    assert_eq!(attempts.get(), 1, "a test that succeeds runs once");
}
