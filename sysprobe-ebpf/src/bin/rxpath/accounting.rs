//! Adds an observation to its reader's slot: each stage, and the total.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::{Key, Protocol, RxpathLoss, RxpathStats, Unread};
use sysprobe_common::slot;
use sysprobe_ebpf::accumulate;
use sysprobe_ebpf::slots::{self, Free, Known, Missing, Room};
use sysprobe_ebpf::volatile::load;

use crate::losses::lose;
use crate::share;

/// The observable points by protocol: bits of `Point::bit`. The agent sets them when all programs are
/// attached.
#[btf_map]
static RXPATH_POINTS: Array<u64, { Protocol::ALL.len() }, { BPF_F_MMAPABLE as usize }> = Array::new();
/// By slot. Sized by the agent.
#[btf_map]
static RXPATH_STATS: Array<RxpathStats, 1, { BPF_F_MMAPABLE as usize }> = Array::new();
#[btf_map]
static RXPATH_SLOTS: Known<Key> = Known::new();
#[btf_map]
static RXPATH_FREE: Free = Free::new();
#[btf_map]
static RXPATH_ROOM: Room = Room::new();

/// Adds the stages of an observation, weighted by the number of packets that it stands for. The time before a
/// point that is not observable belongs to the next stage.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are not so many points")]
pub(crate) fn book(owner: u64, protocol: Protocol, unread: &Unread) {
    let protocol = protocol as u32;
    let points = points_of(protocol);
    if points == 0 {
        return;
    }
    let slot = slot_of(Key { cgroup: owner, protocol, pad: 0 });
    // A nameless slot would mix protocols.
    if slot::is_nameless(slot) {
        return;
    }
    let Some(stats) = RXPATH_STATS.get_ptr_mut(slot) else { return };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs. All additions are
    // atomic.
    let stats = unsafe { &mut *stats };
    (stats.protocol, stats.points) = (protocol + 1, points as u32);
    let begun = load(&unread.timestamps[0]);
    let mut last = begun;
    for (number, (stage, timestamp)) in stats.stages.iter_mut().zip(&unread.timestamps[1..]).enumerate() {
        if points >> (number + 1) & 1 == 0 {
            continue;
        }
        // Clocks of two CPUs, and the reader's timestamps, are not exact to the nanosecond.
        let timestamp = load(timestamp);
        let timestamp = if timestamp > last { timestamp } else { last };
        accumulate::durations(stage, timestamp - last, share::weight_of(unread));
        last = timestamp;
    }
    accumulate::durations(&mut stats.total, last - begun, share::weight_of(unread));
}

/// The observable points of a protocol; 0 until all programs are attached.
#[inline(always)]
pub(crate) fn points_of(protocol: u32) -> u64 {
    RXPATH_POINTS.get(protocol).copied().unwrap_or(0)
}

#[inline(always)]
fn slot_of(key: Key) -> u32 {
    slots::find_key(&RXPATH_SLOTS, (&RXPATH_FREE, &RXPATH_ROOM), key, |missing| {
        lose(match missing {
            Missing::UnreadableCgroup => RxpathLoss::UnreadableCgroup,
            Missing::NoFreeSlot => RxpathLoss::NoFreeSlot,
        });
    })
}
