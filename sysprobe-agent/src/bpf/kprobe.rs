//! Kprobes. aya can attach them too, but does not expose the link, which reports missed hits.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use aya_obj::generated::bpf_link_info;

use super::syscall;
use crate::host::counters::{self, Scope};

/// Holds the perf event type of kprobes, which each kernel assigns for itself.
const KIND: &str = "/sys/bus/event_source/devices/kprobe/type";

/// A program on the entry or the returns of a function. Dropping it detaches the program.
#[derive(Debug)]
pub(super) enum Kprobe {
    Link(OwnedFd),
    /// Before 5.15, the program is attached to the perf event itself.
    Counter {
        _counter: OwnedFd,
    },
}

/// Where a function is hooked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Entry,
    Return,
}

impl Kprobe {
    pub(super) fn attach(program: BorrowedFd<'_>, function: &str, at: Place) -> io::Result<Self> {
        let said = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot attach a kprobe to {function}: {error}"))
        };
        Self::try_attach(program, function, at).map_err(said)
    }

    fn try_attach(program: BorrowedFd<'_>, function: &str, at: Place) -> io::Result<Self> {
        let counter = open(function, at)?;
        match syscall::link_to_counter(program, counter.as_fd()) {
            Ok(link) => Ok(Self::Link(link)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                hang(program, &counter)?;
                Ok(Self::Counter { _counter: counter })
            }
            Err(error) => Err(error),
        }
    }

    /// Hits for which the kernel did not try to run the program, because they occurred inside another kprobe.
    /// 0 before 6.7.
    pub(super) fn missed(&self) -> u64 {
        let Self::Link(link) = self else { return 0 };
        // SAFETY: a union of plain integers, of which the kernel fills the part for kprobes.
        let missed =
            |info: bpf_link_info| unsafe { info.__bindgen_anon_1.perf_event.__bindgen_anon_1.kprobe.missed };
        syscall::link_info(link.as_fd()).map_or(0, missed)
    }
}

/// Opens a perf event for the calls of a function. It counts on one CPU, but the program runs on all of them.
fn open(function: &str, at: Place) -> io::Result<OwnedFd> {
    /// Bit 0 of `config`, as `format/retprobe` beside `type` says. It has been this bit since 4.17.
    const AT_RETURN: u64 = 1;
    let kind = std::fs::read_to_string(KIND)
        .map_err(|error| io::Error::new(error.kind(), format!("{KIND}: {error}")))?;
    let function = CString::new(function)?;
    let mut attr = counters::attributes();
    attr.type_ = kind.trim().parse().map_err(io::Error::other)?;
    attr.config = if matches!(at, Place::Return) { AT_RETURN } else { 0 };
    attr.__bindgen_anon_3.config1 = function.as_ptr() as u64;
    // SAFETY: the name lives until the call returns.
    unsafe { counters::open(&attr, Scope::Cpu(0)) }
}

fn hang(program: BorrowedFd<'_>, counter: &OwnedFd) -> io::Result<()> {
    /// `_IOW('$', 8, __u32)` of `include/uapi/linux/perf_event.h`.
    const SET_BPF: libc::c_ulong = 0x4004_2408;
    // SAFETY: the command takes a descriptor by value.
    if unsafe { libc::ioctl(counter.as_raw_fd(), SET_BPF, program.as_raw_fd()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
