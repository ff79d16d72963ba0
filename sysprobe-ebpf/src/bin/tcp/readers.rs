//! Reads that change nothing. At a read, a socket may get another owner, and a sample of its round-trip time
//! may be due. But most reads of a busy connection are by the same cgroup, soon after the one before. They
//! only note in a small table how far they have read: the record of the socket, its owner and the current
//! task's cgroup are in a dozen other cache lines.
//!
//! The table is for connections that are read often. In each period, their first reads take the long way.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::bpf_jiffies64;
use aya_ebpf::macros::btf_map;
use sysprobe_common::tcp::{READERS, Reader, period};
use sysprobe_ebpf::cgroup::OFF_TASK_CGROUPS;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Typed;

use crate::memory::{key_of, known};
use crate::{Sock, lifecycle, socket};

globals!(
    /// The hash of a connection's addresses and ports; the same for as long as it is open.
    OFF_SK_HASH,
);

/// By the upper bits of the socket's key. Several CPUs may write an element at the same time: it then fits
/// none of their sockets, or one of them.
#[btf_map]
static TCP_READERS: Array<Reader, { READERS as usize }> = Array::new();

/// Data was copied to a reader.
#[inline(always)]
pub(crate) fn read(socket: Sock) {
    let Some(tcp) = lifecycle::reads(socket) else { return };
    if !is_repeated(socket, tcp) {
        lifecycle::read(socket, tcp);
    }
}

/// Whether the read changes nothing but the position, which is noted.
#[inline(always)]
fn is_repeated(socket: Sock, tcp: Sock) -> bool {
    let this = reader(socket, tcp);
    let Some(last) = TCP_READERS.get_ptr_mut(this.place()) else { return false };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    let last = unsafe { &mut *last };
    if last.is_followed_by(&this) {
        last.set_position(&this);
        return last.counts_one_more();
    }
    if last.is_of_the_same_connection(&this) {
        // The next reader may be another cgroup's, which gets only what this one has not read.
        if let Some(remembered) = known(socket) {
            remembered.set_read(last.position());
        }
        *last = this;
    } else if !last.is_busy(this.period) {
        *last = this;
    }
    false
}

/// The current task as the reader of a socket. All of this is in the CPU's cache already. What the receiving
/// softirq writes may be in another CPU's, which costs more than all the rest.
#[inline(always)]
fn reader(socket: Sock, tcp: Sock) -> Reader {
    // SAFETY: the helper only reads a clock.
    let jiffies = unsafe { bpf_jiffies64() };
    Reader::new(
        key_of(socket),
        Typed::current().load_u64(&OFF_TASK_CGROUPS),
        (socket.load_u32(&OFF_SK_HASH), socket::read_up_to(tcp)),
        period(jiffies),
    )
}
