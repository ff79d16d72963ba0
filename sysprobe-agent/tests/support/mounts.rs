//! Mounts that only a process of the test, and its children, see. Nothing here allocates, so it may run
//! between a fork and an exec.

use std::ffi::CStr;
use std::io;
use std::ptr;

use super::done;

/// Gives the calling thread mounts of its own: what it mounts from now on is seen nowhere else.
pub(crate) fn separate() -> io::Result<()> {
    // SAFETY: touches no memory.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE, c"")
}

pub(crate) fn mount(
    from: &CStr,
    to: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: &CStr,
) -> io::Result<()> {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: strings that live, or none.
    done(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), kind, flags, options.as_ptr().cast()) })
}
