//! Reads that change nothing. At a read, a socket may get another owner, and a sample of its round-trip time
//! may be due. But most reads of a busy connection are by the same cgroup, soon after the one before. They
//! only note in a small table how far they have read: the record of the socket, its owner and the current
//! task's cgroup are in a dozen other cache lines.
//!
//! The table is for busy connections. In each period, the first reads take the long way.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::bpf_jiffies64;
use aya_ebpf::macros::btf_map;
use sysprobe_common::tcp::{READERS, Reader};
use sysprobe_ebpf::cgroup::OFF_TASK_CGROUPS;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Typed;

use crate::memory::{key_of, known};
use crate::{Sock, socket};

globals!(
    /// The hash of a connection's addresses and ports; the same for as long as it is open.
    OFF_SK_HASH,
);

/// By [`Reader::place`].
#[btf_map]
static TCP_READERS: Array<Reader, { READERS as usize }> = Array::new();

/// Gives back the element of a socket that is about to be freed.
#[inline(always)]
pub(crate) fn forget(socket: Sock) {
    let key = key_of(socket);
    if let Some(element) = TCP_READERS.get_ptr_mut(Reader::place(key)) {
        // SAFETY: as in `is_repeated`.
        unsafe {
            if (*element).is_of_socket(key) {
                element.write(Reader::NONE);
            }
        }
    }
}

/// Whether the read changes nothing but the position, which is noted.
///
/// Several CPUs may write an element at the same time. Then it fits none of their sockets, or one of them
/// with what belongs to another one; but an element that changes its socket begins with a single read, so the
/// next reads take the long way all the same.
#[inline(always)]
pub(crate) fn is_repeated(socket: Sock, tcp: Sock) -> bool {
    let key = key_of(socket);
    let this = reader(key, socket, tcp);
    let Some(element) = TCP_READERS.get_ptr_mut(Reader::place(key)) else { return false };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs. Volatile, so that
    // what is checked is what is used.
    let last = unsafe { element.read_volatile() };
    if last.repeats_in(&this) {
        // SAFETY: as above.
        unsafe { element.write(this.after(&last)) };
        return last.is_busy();
    }
    if let Some(position) = last.unrecorded(&this)
        && let Some(remembered) = known(socket)
    {
        // The next reader may be of another cgroup, which gets only what this one has not read.
        remembered.set_read(position);
    }
    if last.gives_way_to(&this) {
        // SAFETY: as above.
        unsafe { element.write(this) };
    }
    false
}

/// The current task as the reader of a socket. The members of the socket are in this CPU's cache, because the
/// kernel has just used them for the reader. Those that only the receiving softirq writes (`rcv_nxt`,
/// `tcp_mstamp`) may be in another CPU's cache, which would cost more than all the rest.
#[inline(always)]
fn reader(key: u64, socket: Sock, tcp: Sock) -> Reader {
    // SAFETY: the helper only reads a clock.
    let jiffies = unsafe { bpf_jiffies64() };
    let connection = (socket.load_u32(&OFF_SK_HASH), socket::read_up_to(tcp));
    Reader::new(key, Typed::current().load_u64(&OFF_TASK_CGROUPS), connection, jiffies)
}
