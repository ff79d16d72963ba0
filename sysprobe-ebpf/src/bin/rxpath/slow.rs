//! Requests that took longer than a command's threshold, sent one by one through a ring buffer. While no
//! command asks for them, the only cost is a check of the threshold.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{Array, RingBuf};
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::helpers::generated::{bpf_get_current_comm, bpf_get_smp_processor_id};
use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::slow::{NAME_SIZE, RING_BYTES, RUN_INTERVALS_TOLD, Slow};
use sysprobe_common::rxpath::{Point, Protocol, RxpathLoss, Unread};
use sysprobe_common::sched::RunInterval;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::socket::{MAPPED, OFF_SK_PEER_V6, is_version_6};
use sysprobe_ebpf::volatile::load;

use crate::accounting::points_of;
use crate::losses::lose;
use crate::memory::Sock;
use crate::reader;

globals!(OFF_SK_OWN_PORT, OFF_SK_PEER_PORT, OFF_SK_PEER_V4);

/// The threshold in nanoseconds; 0 for off.
#[btf_map]
static RXPATH_SLOW_FROM: Array<u64, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static RXPATH_SLOW: RingBuf<Slow, { RING_BYTES as usize }> = RingBuf::new();

/// The current task has read the data: sends a record if that took too long.
#[inline(always)]
pub(crate) fn tell(socket: Sock, owner: u64, protocol: Protocol, unread: &Unread) {
    let took = load(&unread.timestamps[Point::Read as usize])
        .saturating_sub(load(&unread.timestamps[Point::Device as usize]));
    let from = RXPATH_SLOW_FROM.get(0).map_or(0, load);
    if from == 0 || took < from || points_of(protocol as u32) == 0 {
        return;
    }
    let Some(mut record) = RXPATH_SLOW.reserve(0) else {
        lose(RxpathLoss::SlowRingFull);
        return;
    };
    let slow: *mut Slow = record.as_mut_ptr();
    // SAFETY: the ring's memory, of the record's size, until it is submitted; every member is written.
    unsafe { describe(&mut *slow, socket, owner, protocol, unread) };
    record.submit(0);
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are not so many points")]
fn describe(slow: &mut Slow, socket: Sock, owner: u64, protocol: Protocol, unread: &Unread) {
    for (told, timestamp) in slow.timestamps.iter_mut().zip(&unread.timestamps) {
        *told = load(timestamp);
    }
    slow.owner = owner;
    slow.thread = bpf_get_current_pid_tgid();
    // SAFETY: the helper writes at most the size it is given, and all of it.
    unsafe { bpf_get_current_comm(slow.name.as_mut_ptr().cast(), NAME_SIZE as u32) };
    slow.peer = peer(socket);
    slow.peer_port = u16::from_be(socket.u16(&OFF_SK_PEER_PORT).unwrap_or(0));
    slow.own_port = socket.u16(&OFF_SK_OWN_PORT).unwrap_or(0);
    slow.protocol = protocol as u32;
    slow.points = points_of(protocol as u32) as u32;
    // SAFETY: the helper only returns a number.
    slow.cpu = unsafe { bpf_get_smp_processor_id() };
    (slow.waited_from, slow.waited_to, slow.clock_offset) = (0, 0, 0);
    slow.run_intervals = [RunInterval::NONE; RUN_INTERVALS_TOLD];
    reader::tell_of_its_cpu(slow);
}

#[inline(always)]
fn peer(socket: Sock) -> [u32; 4] {
    if is_version_6(socket) {
        let quarter = |at| socket.u32_of(&OFF_SK_PEER_V6, at);
        return [quarter(0), quarter(1), quarter(2), quarter(3)];
    }
    match socket.u32(&OFF_SK_PEER_V4).unwrap_or(0) {
        0 => [0; 4],
        address => [0, 0, MAPPED, address],
    }
}
