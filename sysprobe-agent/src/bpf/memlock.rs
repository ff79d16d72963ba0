//! The limit on locked memory, to which kernels before 5.11 charge maps and programs. It is 64 KiB by
//! default.

use std::io;

use tracing::debug;

/// Raises the limit as far as this process may. Failure is no error, since newer kernels do not need it. aya
/// raises the limit too, but only after creating a map has failed. A program over the limit is just refused.
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
