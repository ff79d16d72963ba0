//! libaio's system calls, one request at a time: the library itself adds nothing to them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// `IOCB_CMD_*` of `include/uapi/linux/aio_abi.h`.
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;

/// `struct iocb`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Request {
    data: u64,
    key: u32,
    flags: u32,
    operation: u16,
    priority: i16,
    descriptor: i32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_descriptor: u32,
}

/// `struct io_event`.
#[repr(C)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    more: i64,
}

#[derive(Debug)]
pub(crate) struct Queue(libc::c_ulong);

impl Request {
    /// A request at the file's beginning. The kernel owns the buffer until the request has completed.
    pub(crate) fn new(operation: u16, file: &File, buffer: &mut [u8]) -> Self {
        Self {
            data: 0,
            key: 0,
            flags: 0,
            operation,
            priority: 0,
            descriptor: file.as_raw_fd(),
            buffer: buffer.as_mut_ptr() as u64,
            length: buffer.len() as u64,
            offset: 0,
            reserved: 0,
            more_flags: 0,
            event_descriptor: 0,
        }
    }

    /// `RWF_*`.
    pub(crate) const fn with_flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }
}

impl Queue {
    pub(crate) fn new() -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's name.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) })?;
        Ok(Self(context))
    }

    pub(crate) fn submit(&self, mut request: Request) -> io::Result<()> {
        let mut requests = [&raw mut request];
        // SAFETY: one request, which the kernel copies.
        checked(unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, requests.as_mut_ptr()) })?;
        Ok(())
    }

    /// The result of the next request that completes.
    pub(crate) fn wait(&self) -> io::Result<i64> {
        let mut event = Event { data: 0, request: 0, result: 0, more: 0 };
        let no_limit = ptr::null_mut::<libc::timespec>();
        // SAFETY: room for one event.
        let call = unsafe { libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, &raw mut event, no_limit) };
        checked(call)?;
        Ok(event.result)
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
