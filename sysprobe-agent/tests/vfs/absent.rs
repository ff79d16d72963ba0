//! Memory that is missing until the test provides it (`userfaultfd`). A system call that copies from or to it
//! waits, on every kernel and with any file, and a fatal signal ends the wait.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

use super::calls::worked;
use super::support::process::Load;
use super::support::{SharedNumbers, until};

pub(crate) const PAGE: usize = 4096;

// From include/uapi/linux/userfaultfd.h; the crate `libc` lacks these.
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_ZEROPAGE: libc::c_ulong = 0xc020_aa04;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
const UFFD_EVENT_PAGEFAULT: u8 = 0x12;

#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register` and `struct uffdio_zeropage`, which both have a result at the end.
#[repr(C)]
struct Range {
    start: u64,
    length: u64,
    mode: u64,
    result: u64,
}

/// `struct uffd_msg` for a page that a thread needs.
#[repr(C)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u64,
}

/// The number of the userfaultfd descriptor that controls the child's page.
#[derive(Debug, Default)]
pub(crate) struct Announced(AtomicI32);

// SAFETY: a number, of which zero is a value.
unsafe impl SharedNumbers for Announced {}

impl Announced {
    /// In the child: maps a missing page.
    pub(crate) fn page(&self) -> *mut libc::c_void {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mut api = Api { version: UFFD_API, features: 0, ioctls: 0 };
        // SAFETY: a new mapping, and structures that live.
        unsafe {
            let page = libc::mmap(null_mut(), PAGE, protection, flags, -1, 0);
            worked(if page == libc::MAP_FAILED { -1 } else { 0 });
            let decides = worked(libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK));
            let decides = i32::try_from(decides).unwrap_or(-1);
            let mut range = Range::of(page as u64, UFFDIO_REGISTER_MODE_MISSING);
            worked(libc::ioctl(decides, UFFDIO_API, &raw mut api).into());
            worked(libc::ioctl(decides, UFFDIO_REGISTER, &raw mut range).into());
            self.0.store(decides, Ordering::Release);
            page
        }
    }

    /// In the test: waits until the child needs its page.
    pub(crate) fn wanted(&self, load: &Load) -> Wanted {
        let number =
            until("the child has a page", || Some(self.0.load(Ordering::Acquire)).filter(|it| *it > 0));
        // SAFETY: plain numbers.
        let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, load.pid, 0) });
        // SAFETY: as above.
        let decides = owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) });
        let page = until("the child wants its page", || read(&decides));
        Wanted { decides, page }
    }
}

/// A page that a child waits for.
#[derive(Debug)]
pub(crate) struct Wanted {
    decides: OwnedFd,
    page: u64,
}

impl Wanted {
    /// Provides the page, filled with zeros.
    pub(crate) fn give(&self) {
        let mut range = Range::of(self.page, 0);
        // SAFETY: a structure that lives.
        let result = unsafe { libc::ioctl(self.decides.as_raw_fd(), UFFDIO_ZEROPAGE, &raw mut range) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}

impl Range {
    const fn of(start: u64, mode: u64) -> Self {
        Self { start, length: PAGE as u64, mode, result: 0 }
    }
}

fn owned(descriptor: libc::c_long) -> OwnedFd {
    assert!(descriptor >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the kernel has just made it for us.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(descriptor).expect("a descriptor")) }
}

/// The page that a thread waits for.
fn read(decides: &OwnedFd) -> Option<u64> {
    let mut message = Message { event: 0, reserved: [0; 7], flags: 0, address: 0, thread: 0 };
    let address = (&raw mut message).cast();
    // SAFETY: the address is of a live value of that size.
    let read = unsafe { libc::read(decides.as_raw_fd(), address, size_of::<Message>()) };
    let page = message.address & !(PAGE as u64 - 1);
    (read > 0 && message.event == UFFD_EVENT_PAGEFAULT).then_some(page)
}
