//! Events that the kernel hides from all programs: tests that count each event allow for them where they
//! exist.

mod support;

use std::cell::Cell;

use support::figure;
use support::hidden::{count_all, hides_supervisor};

#[test]
fn a_failed_count_is_repeated_only_where_the_kernel_hides_events() {
    let hides = hides_supervisor();
    figure(&format!("the kernel hides process 1: {hides}"));
    let attempts = Cell::new(0);
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
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
