//! The system calls of the first process that the standard library lacks.

use std::ffi::CString;
use std::io::{self, Error};
use std::mem;

/// One mount. `data` are the file system's own options.
pub(crate) fn mount(
    kind: &str,
    source: &str,
    target: &str,
    flags: libc::c_ulong,
    data: &str,
) -> io::Result<()> {
    let (kind, source) = (CString::new(kind)?, CString::new(source)?);
    let (target, data) = (CString::new(target)?, CString::new(data)?);
    // SAFETY: four strings that live until the call returns.
    let done =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) };
    check(done.into())
}

/// Gives a module to the kernel.
pub(crate) fn load_module(image: &[u8]) -> io::Result<()> {
    // SAFETY: an image with its length, and a string of parameters, which is empty.
    check(unsafe { libc::syscall(libc::SYS_init_module, image.as_ptr(), image.len(), c"".as_ptr()) })
}

/// Brings the loopback device up; a new kernel has it down.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: creates a descriptor and touches no memory.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(socket.into())?;
    // SAFETY: zero is a value of every field.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes_with_nul()) {
        // A character has a sign on some processors only.
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).expect("IFF_UP is 1");
    // SAFETY: the request is valid, and the kernel only reads it.
    let done = unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request) };
    let result = check(done.into());
    // SAFETY: the descriptor is ours and not used again.
    unsafe { libc::close(socket) };
    result
}

/// Has processes open as many files as the init systems of nodes let them, if they ask for it; the kernel's
/// own limit is 4,096.
pub(crate) fn allow_open_files() -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1 << 20 };
    // SAFETY: the address is of a live value.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }.into())
}

/// Waits for one child and buries every other process that ends meanwhile: orphans are the first process'
/// children.
///
/// Returns the exit status, or 128 and the signal's number.
pub(crate) fn wait(child: u32) -> io::Result<i32> {
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        check(pid.into())?;
        if pid.cast_unsigned() == child {
            let signalled = libc::WIFSIGNALED(status);
            return Ok(if signalled { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) });
        }
    }
}

/// Turns the machine off. The first process must never return.
pub(crate) fn power_off() -> ! {
    // SAFETY: neither call touches memory.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    loop {
        std::thread::park();
    }
}

fn check(returned: i64) -> io::Result<()> {
    if returned < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}
