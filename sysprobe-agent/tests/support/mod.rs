//! The basis of the integration tests: the real binary, cgroups and processes of their own, and the kernel's
//! own numbers to compare with. Works on cgroup v1, v2 and hybrid hosts; needs root.
//!
//! Everything cleans up when it is dropped, also in a failed test. Nothing here asserts how long something
//! takes: [`until`] waits for conditions, with a deadline that only something broken reaches.
#![allow(dead_code, reason = "every test file compiles a copy of its own and uses a part of it")]

use std::io::{self, Write};
use std::sync::atomic::AtomicU64;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sysprobe_common::hist;

pub(crate) mod agent;
pub(crate) mod attach_modes;
pub(crate) mod bpf;
pub(crate) mod cgroup;
pub(crate) mod command;
pub(crate) mod device;
pub(crate) mod document;
pub(crate) mod hidden;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod mounts;
pub(crate) mod network;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod reader;
pub(crate) mod replay;
mod sample;
pub(crate) mod samples;
pub(crate) mod storage;
pub(crate) mod terminal;
pub(crate) mod totals;

/// Far longer than anything takes. The longest step is the start of four agents on an emulated machine with
/// two CPUs: while another guest runs beside it, the verifier may need more than 90 seconds for their
/// programs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(240);
const PAUSE: Duration = Duration::from_millis(10);

/// Repeats the check until it has an answer.
pub(crate) fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let mut answer = None;
    let is_there = eventually(|| {
        answer = condition();
        answer.is_some()
    });
    assert!(is_there, "waited {DEADLINE:?} in vain: {what}");
    answer.expect("it is there")
}

/// What `read` returns once it stays the same for a quarter of a second. The kernel brings some numbers up to
/// date late, and an agent that could not read all files in time has old ones.
pub(crate) fn at_rest<T: PartialEq>(what: &str, mut read: impl FnMut() -> Option<T>) -> T {
    until(what, || {
        let before = read()?;
        sleep(Duration::from_millis(250));
        (read()? == before).then_some(before)
    })
}

/// Whether a condition holds before the deadline, for a caller with a more detailed error message.
pub(crate) fn eventually(condition: impl FnMut() -> bool) -> bool {
    eventually_within(DEADLINE, condition)
}

/// The same for something that need not happen.
pub(crate) fn eventually_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        sleep(PAUSE);
    }
}

/// Whether `ours` differs from `truth` by at most the share `tolerance` of `truth`.
pub(crate) fn within(tolerance: f64, ours: u64, truth: u64) -> bool {
    ours.abs_diff(truth) as f64 <= tolerance * truth as f64
}

/// The number of buckets between two latencies.
pub(crate) fn buckets_apart(seconds: f64, nanoseconds: u64) -> usize {
    let ours = Duration::from_secs_f64(seconds).as_nanos();
    hist::bucket_of(u64::try_from(ours).expect("centuries")).abs_diff(hist::bucket_of(nanoseconds))
}

/// Prints a measured value to the log of a run (`--nocapture`).
#[expect(clippy::print_stderr, reason = "the place where figures of a test go")]
pub(crate) fn figure(text: &str) {
    eprintln!("figure: {text}");
}

/// Reports that a test or a part of it did not run, and why. Bypasses the capture of output, which hides the
/// output of passed tests.
pub(crate) fn left_out(what: &str, why: &str) {
    // In one write, so that no other line interrupts it.
    let line = format!("left out: {what}: {why}\n");
    io::stderr().write_all(line.as_bytes()).expect("standard error can be written to");
}

/// Turns the return value of a system call into a result.
pub(crate) fn done(returned: libc::c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A value in memory that forked children share. It starts as zero bytes and is never freed.
pub(crate) fn shared<T: SharedNumbers>() -> &'static T {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which touches no other memory.
    let address = unsafe {
        libc::mmap(std::ptr::null_mut(), size_of::<T>(), libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    assert_ne!(address, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    // SAFETY: a page is large and aligned enough, and zero is a value of such a type.
    unsafe { &*address.cast() }
}

/// A type that consists of atomic numbers.
///
/// # Safety
///
/// All bytes zero must be a value, and the type must be safe to share.
pub(crate) unsafe trait SharedNumbers: Sync {}

// SAFETY: an atomic number, for which zero is a value.
unsafe impl SharedNumbers for AtomicU64 {}
