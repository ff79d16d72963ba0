//! Opens performance counters, through which kprobes are attached, and finds out whether the kernel lets this
//! process do so.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use aya_obj::generated::{perf_event_attr, perf_sw_ids, perf_type_id};

/// What a counter counts.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// This process, on every CPU.
    ThisProcess,
    /// Every process, on this CPU.
    Cpu(libc::c_int),
}

/// Attributes of a counter, without an event.
pub(crate) fn attributes() -> perf_event_attr {
    // SAFETY: plain integers, for which zero bytes are valid.
    let mut attr: perf_event_attr = unsafe { std::mem::zeroed() };
    attr.size = u32::try_from(size_of::<perf_event_attr>()).unwrap_or(0);
    attr
}

/// Opens a counter.
///
/// # Safety
///
/// Addresses in the attributes are valid.
pub(crate) unsafe fn open(attr: &perf_event_attr, scope: Scope) -> io::Result<OwnedFd> {
    const NO_GROUP: libc::c_int = -1;
    /// `PERF_FLAG_FD_CLOEXEC`.
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    let (process, cpu): (libc::pid_t, libc::c_int) = match scope {
        Scope::ThisProcess => (0, -1),
        Scope::Cpu(cpu) => (-1, cpu),
    };
    // SAFETY: the attributes live until the call returns; so does what they point to, as the caller promises.
    let counter = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            process,
            cpu,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    let counter = i32::try_from(counter).map_err(io::Error::other)?;
    if counter < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(counter) })
}

/// `false` only if the kernel refuses permission.
///
/// Capabilities alone do not tell: some distributions' kernels require `CAP_SYS_ADMIN` where Linux itself
/// requires `CAP_PERFMON`, and seccomp may forbid the call. So this opens a counter that counts nothing.
pub(super) fn can_be_opened() -> bool {
    let mut attr = attributes();
    attr.type_ = perf_type_id::PERF_TYPE_SOFTWARE as u32;
    attr.config = perf_sw_ids::PERF_COUNT_SW_DUMMY as u64;
    attr.set_disabled(1);
    // Upstream Linux lets any process count its own user-space events without a privilege.
    attr.set_exclude_kernel(1);
    // SAFETY: there is no address in these attributes.
    match unsafe { open(&attr, Scope::ThisProcess) } {
        Ok(_) => true,
        // A kernel without performance counters returns another error.
        Err(error) => error.kind() != io::ErrorKind::PermissionDenied,
    }
}
