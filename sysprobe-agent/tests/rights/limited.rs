//! Runs commands with a subset of capabilities, as a Kubernetes container does: user 0, a bounding set, and
//! no new privileges. Also selects the rights in the table that this kernel requires.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use caps::Capability;
use sysprobe_agent::host::{KPROBES_BEFORE, Kernels, Need, RIGHTS, Right};

use crate::support::attach_modes::kernel;
use crate::support::done;

/// Capabilities by number, as the kernel may have some that the `caps` crate does not name yet.
pub(crate) type Set = BTreeSet<u8>;

/// The capabilities that the test itself can pass on.
pub(crate) fn everything() -> Set {
    let has = |number: &u8| {
        // SAFETY: plain values.
        unsafe { libc::prctl(libc::PR_CAPBSET_READ, libc::c_ulong::from(*number), 0, 0, 0) == 1 }
    };
    (0..=last()).filter(has).collect()
}

fn last() -> u8 {
    let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap").expect("a number");
    last.trim().parse().expect("a number")
}

/// The capabilities that the table requires on this kernel, without optional ones.
pub(crate) fn needed() -> Set {
    let is_optional = |right: &&Right| matches!(right.need, Need::ClosedCgroups | Need::Statistics);
    asked_for().filter(|right| !is_optional(right)).map(|right| right.capability.index()).collect()
}

/// The part of the table that applies to this kernel.
pub(crate) fn asked_for() -> impl Iterator<Item = &'static Right> {
    RIGHTS.iter().filter(|right| match right.kernels {
        Kernels::All => true,
        Kernels::Before(major, minor) => kernel() < (major, minor),
        Kernels::GuardedKprobes => kernel() < KPROBES_BEFORE && is_guarded(),
    })
}

/// Whether opening a perf event requires a capability here. Mainline Linux has no level above 2.
pub(crate) fn is_guarded() -> bool {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    paranoid.trim().parse::<i32>().is_ok_and(|level| level > 2)
}

pub(crate) fn with(mut set: Set, capability: Capability) -> Set {
    set.insert(capability.index());
    set
}

pub(crate) fn without(mut set: Set, capability: Capability) -> Set {
    set.remove(&capability.index());
    set
}

/// The message about a missing capability.
pub(crate) fn said_of(right: &Right) -> String {
    format!("without {}: {}", right.capability, right.without)
}

/// Makes the command start with only these capabilities, and without a way to gain more.
pub(crate) fn limit(command: &mut Command, kept: &Set) {
    let dropped: Vec<u8> = (0..=last()).filter(|number| !kept.contains(number)).collect();
    let limit = move || {
        for number in &dropped {
            // SAFETY: plain values. The exec gives user 0 only the capabilities in the bounding set.
            done(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(*number), 0, 0, 0) })?;
        }
        // SAFETY: plain values.
        done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(limit) };
}

/// Sets the default locked-memory limit of a login on the older kernels, which a process without the
/// capability cannot raise.
pub(crate) fn lock_little(command: &mut Command) {
    let lock = || {
        let low = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
        // SAFETY: the address is of a live value.
        done(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const low) })
    };
    // SAFETY: the closure only makes a system call.
    unsafe { command.pre_exec(lock) };
}

/// Asserts that a process has exactly these capabilities.
pub(crate) fn assert_limited(pid: u32, kept: &Set) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).expect("a line").trim();
    let mask = kept.iter().fold(0_u64, |mask, number| mask | 1 << number);
    for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
        assert_eq!(u64::from_str_radix(line(set), 16), Ok(mask), "{set} of {kept:?}");
    }
    assert_eq!((line("NoNewPrivs:"), line("Uid:").split('\t').next()), ("1", Some("0")));
}
