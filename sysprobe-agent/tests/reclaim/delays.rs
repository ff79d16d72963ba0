//! The kernel's own record of how long a task reclaimed memory
//! (Documentation/accounting/delay-accounting.rst), queried over generic netlink.

use std::fs;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Enables delay accounting for new tasks until it is dropped. Kernels before 5.14 have it enabled all the
/// time.
#[derive(Debug)]
pub(crate) struct Accounting {
    before: Option<String>,
}

/// The delays of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delays {
    pub(crate) reclaims: u64,
    pub(crate) took_ns: u64,
}

const SWITCH: &str = "/proc/sys/kernel/task_delayacct";

// include/uapi/linux/netlink.h, genetlink.h and taskstats.h.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_PID: u16 = 1;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;
const TASKSTATS_TYPE_STATS: u16 = 3;
/// The offset of `freepages_count` in `struct taskstats`, followed by `freepages_delay_total`.
const FREEPAGES: usize = 312;
/// From this version on, other members precede them (Linux 6.14).
const SHIFTED: u16 = 15;

/// The size of the netlink header and the generic netlink header.
const HEADERS: usize = 20;

impl Accounting {
    pub(crate) fn on() -> Self {
        let before = fs::read_to_string(SWITCH).ok();
        if before.is_some() {
            fs::write(SWITCH, "1").expect("it can be turned on");
        }
        Self { before }
    }
}

impl Drop for Accounting {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            drop(fs::write(SWITCH, before.trim()));
        }
    }
}

impl Delays {
    /// `None` if the kernel has no such accounting, or a different format.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let socket = connect();
        let name = b"TASKSTATS\0";
        let reply = ask(&socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, name)?;
        let family = attribute(&reply, CTRL_ATTR_FAMILY_ID)?;
        let family = u16::from_ne_bytes(family.try_into().ok()?);
        let reply = ask(&socket, family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, &pid.to_ne_bytes())?;
        let statistics = attribute(attribute(&reply, TASKSTATS_TYPE_AGGR_PID)?, TASKSTATS_TYPE_STATS)?;
        let version = u16::from_ne_bytes(statistics.get(..2)?.try_into().ok()?);
        if version == SHIFTED {
            return None;
        }
        let number = |at: usize| Some(u64::from_ne_bytes(statistics.get(at..at + 8)?.try_into().ok()?));
        Some(Self { reclaims: number(FREEPAGES)?, took_ns: number(FREEPAGES + 8)? })
    }

    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self { reclaims: self.reclaims - earlier.reclaims, took_ns: self.took_ns - earlier.took_ns }
    }
}

fn connect() -> OwnedFd {
    // SAFETY: a new descriptor that has no other owner.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let descriptor = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC);
        assert!(descriptor >= 0, "{}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(descriptor)
    }
}

/// Sends a command with one attribute; returns the attributes of the answer, or `None` for an error.
fn ask(socket: &OwnedFd, family: u16, command: u8, attribute: u16, value: &[u8]) -> Option<Vec<u8>> {
    let length = HEADERS + 4 + value.len().next_multiple_of(4);
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).expect("small").to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender, which the kernel fills in, then command, version and padding.
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(u16::try_from(4 + value.len()).expect("small").to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(length, 0);
    let mut reply = vec![0_u8; 8192];
    // SAFETY: addresses and lengths of live buffers; an address of zeros is the kernel's.
    let received = unsafe {
        let mut kernel = zeroed::<libc::sockaddr_nl>();
        kernel.nl_family = u16::try_from(libc::AF_NETLINK).expect("small");
        let size = u32::try_from(size_of_val(&kernel)).expect("small");
        let to = (&raw const kernel).cast();
        let sent = libc::sendto(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0, to, size);
        assert!(sent > 0, "{}", io::Error::last_os_error());
        libc::recv(socket.as_raw_fd(), reply.as_mut_ptr().cast(), reply.len(), 0)
    };
    reply.truncate(usize::try_from(received).expect("the kernel answers"));
    let kind = u16::from_ne_bytes(reply.get(4..6)?.try_into().ok()?);
    (kind != NLMSG_ERROR).then(|| reply.split_off(HEADERS))
}

/// The value of the first attribute of this type.
fn attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    /// Bits of the type field that are flags.
    const FLAGS: u16 = 0xc000;
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let found = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?) & !FLAGS;
        if found == kind {
            return attributes.get(4..length);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}
