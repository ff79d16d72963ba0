//! Adds a socket's totals to its owner's slot.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::cgroup::KERNEL;
use sysprobe_common::slot;
use sysprobe_common::tcp::{Count, Socket, TcpLoss, TcpStats, Totals};
pub(crate) use sysprobe_ebpf::accumulate::duration as add_time;
use sysprobe_ebpf::atomic::add_u64;
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};

use crate::losses::lose;
use crate::memory::{replace, replace_narrow};
use crate::socket::{self, OFF_TCP_NOW};
use crate::{HAS_SCAN, Sock};

/// By slot. Sized by the agent.
#[btf_map]
static TCP_STATS: Array<TcpStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static TCP_SLOTS: Known = Known::new();
#[btf_map]
static TCP_FREE: Free = Free::new();
#[btf_map]
static TCP_ROOM: Room = Room::new();

#[inline(always)]
pub(crate) fn slot_of(owner: u64) -> u32 {
    match owner {
        0 => slot::UNKNOWN,
        KERNEL => slot::KERNEL,
        id => slots::find_key(&TCP_SLOTS, (&TCP_FREE, &TCP_ROOM), id, |missing| {
            lose(match missing {
                Missing::UnreadableCgroup => TcpLoss::UnreadableCgroup,
                Missing::NoFreeSlot => TcpLoss::NoFreeSlot,
            });
        }),
    }
}

/// The statistics of an owner.
#[inline(always)]
pub(crate) fn stats_of(owner: u64) -> Option<&'static mut TcpStats> {
    let stats = TCP_STATS.get_ptr_mut(slot_of(owner))?;
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs. All additions are
    // atomic.
    Some(unsafe { &mut *stats })
}

/// Accounts for the growth of a socket's totals since the last time.
#[inline(always)]
pub(crate) fn book_totals(tcp: Sock, remembered: &mut Socket, is_listening: bool) {
    let now = socket::totals(tcp, remembered, is_listening);
    book_totals_at(tcp, remembered, &now, is_listening);
}

/// The same with these totals. Each one is claimed and added before the next: otherwise the verifier would
/// follow every combination of totals that have grown and totals that have not.
#[inline(always)]
pub(crate) fn book_totals_at(tcp: Sock, remembered: &mut Socket, now: &Totals, is_listening: bool) {
    if is_booked(remembered, now) {
        return;
    }
    let Some(stats) = stats_of(remembered.owner) else { return };
    let Some(traffic) = stats.traffic.get_mut(socket::family(tcp) as usize) else { return };
    book(&mut traffic.received_bytes, &mut remembered.received_bytes, now.received_bytes);
    book(&mut traffic.sent_bytes, &mut remembered.sent_bytes, now.sent_bytes);
    book_narrow(&mut traffic.received_packets, &mut remembered.received_segments, now.received_segments);
    book_narrow(&mut traffic.sent_packets, &mut remembered.sent_segments, now.sent_segments);
    let dropped_or_limited = if is_listening { Count::AcceptDrops } else { Count::WindowLimited };
    let counts = &mut stats.counts;
    book_narrow(&mut counts[Count::Retransmitted as usize], &mut remembered.retransmitted, now.retransmitted);
    book_narrow(&mut counts[Count::OutOfOrder as usize], &mut remembered.out_of_order, now.out_of_order);
    book_narrow(
        &mut counts[dropped_or_limited as usize],
        &mut remembered.dropped_or_limited,
        now.dropped_or_limited,
    );
}

/// Accounts for a socket before its end, while it is locked, unless the scan does. This happens at most eight
/// times a second, because it takes some 25 reads of kernel memory, a helper call each.
#[inline(always)]
pub(crate) fn book_on_the_way(tcp: Sock, remembered: &mut Socket) {
    if HAS_SCAN {
        return;
    }
    let tick = Socket::tick(tcp.load_u64(&OFF_TCP_NOW));
    if remembered.owner != 0 && tick != remembered.visited {
        remembered.visited = tick;
        book_totals(tcp, remembered, false);
    }
}

/// Whether no total has grown. One comparison for all, for the verifier's sake.
#[inline(always)]
fn is_booked(booked: &Socket, now: &Totals) -> bool {
    let bytes = (booked.received_bytes ^ now.received_bytes) | (booked.sent_bytes ^ now.sent_bytes);
    let segments =
        (booked.received_segments ^ now.received_segments) | (booked.sent_segments ^ now.sent_segments);
    let rest = (booked.retransmitted ^ now.retransmitted)
        | (booked.out_of_order ^ now.out_of_order)
        | (booked.dropped_or_limited ^ now.dropped_or_limited);
    bytes | u64::from(segments | rest) == 0
}

#[inline(always)]
fn book(sum: &mut u64, booked: &mut u64, now: u64) {
    let new = claim(booked, now);
    add(sum, new);
}

#[inline(always)]
fn book_narrow(sum: &mut u64, booked: &mut u32, now: u32) {
    let new = claim_narrow(booked, now);
    add(sum, new.into());
}

/// Claims the growth of a total by compare and exchange: of several programs at the same time, only one gets
/// it. A program with an older total than the recorded one gets nothing.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "a difference may be below 0")]
fn claim(booked: &mut u64, now: u64) -> u64 {
    for _ in 0..4 {
        let before = *booked;
        let new = now.wrapping_sub(before);
        if (new as i64) <= 0 {
            return 0;
        }
        if replace(booked, before, now) {
            return new;
        }
    }
    0
}

/// The same for the kernel's 32-bit totals, which wrap.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "a difference may be below 0")]
fn claim_narrow(booked: &mut u32, now: u32) -> u32 {
    for _ in 0..4 {
        let before = *booked;
        let new = now.wrapping_sub(before);
        if (new as i32) <= 0 {
            return 0;
        }
        if replace_narrow(booked, before, now) {
            return new;
        }
    }
    0
}

#[inline(always)]
fn add(sum: &mut u64, new: u64) {
    if new != 0 {
        add_u64(sum, new);
    }
}

#[inline(always)]
pub(crate) fn count(stats: &mut TcpStats, what: Count, several: u64) {
    if let Some(count) = stats.counts.get_mut(what as usize) {
        add(count, several);
    }
}
