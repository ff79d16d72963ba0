//! The limit on locked memory, to which kernels before 5.11 charge maps and programs. It is 64 KiB by
//! default.

use std::io;

use tracing::debug;

/// Raises the limit as far as this process may. It may not be needed, so it is no error if it cannot be done.
/// aya does so too, but only after a map has found no room: a program that finds none is refused for lack of
/// memory.
pub(super) fn raise() {
    let set = |limit: libc::rlimit| {
        // SAFETY: the address is of a live value.
        match unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let Err(error) = set(unlimited) else {
        debug!("The limit on locked memory is off.");
        return;
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: as above.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    let raised = known && set(libc::rlimit { rlim_cur: limit.rlim_max, ..limit }).is_ok();
    debug!(%error, bytes = limit.rlim_max, raised, "The limit on locked memory stays.");
}
