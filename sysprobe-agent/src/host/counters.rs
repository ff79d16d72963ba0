//! Whether the kernel lets this process open performance counters, through which kprobes are attached.
//!
//! Capabilities alone do not tell: some distributions' kernels require `CAP_SYS_ADMIN` where Linux itself
//! requires `CAP_PERFMON`, and seccomp may forbid the call. So this opens a counter that counts nothing.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use aya_obj::generated::{perf_event_attr, perf_sw_ids, perf_type_id};

/// `false` only if the kernel refuses permission.
pub(super) fn can_be_opened() -> bool {
    const THIS_PROCESS: libc::pid_t = 0;
    const EVERY_CPU: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    /// `PERF_FLAG_FD_CLOEXEC`.
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    // SAFETY: plain integers, for which zero bytes are valid.
    let mut attr: perf_event_attr = unsafe { std::mem::zeroed() };
    attr.type_ = perf_type_id::PERF_TYPE_SOFTWARE as u32;
    attr.config = perf_sw_ids::PERF_COUNT_SW_DUMMY as u64;
    attr.size = u32::try_from(size_of::<perf_event_attr>()).unwrap_or(0);
    attr.set_disabled(1);
    // Upstream Linux lets any process count its own user-space events without a privilege.
    attr.set_exclude_kernel(1);
    // SAFETY: the attribute lives until the call returns.
    let counter = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            THIS_PROCESS,
            EVERY_CPU,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(counter) {
        Ok(counter) if counter >= 0 => {
            // SAFETY: a new descriptor without another owner.
            drop(unsafe { OwnedFd::from_raw_fd(counter) });
            true
        }
        // A kernel without performance counters returns another error.
        _ => io::Error::last_os_error().kind() != io::ErrorKind::PermissionDenied,
    }
}
