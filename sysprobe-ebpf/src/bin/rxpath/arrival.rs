//! When packets passed a device, and when IP received them. A packet that passes several devices (a bridge, a
//! veth pair, a router between them) is recognised by its name and keeps its first timestamp.
//!
//! Timestamps are in an array, at an index that is a hash of the name, and a newer packet overwrites an older
//! one. So nothing is allocated or removed. Beside each timestamp are bits of the hash that identify the
//! packet.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::{Point, Protocol, RxpathLoss};
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;

use crate::accounting::points_of;
use crate::name::{self, Name};
use crate::share;

globals!(
    /// The number of entries, as a power of two.
    CFG_ARRIVAL_BITS,
    OFF_SKB_DEV,
    OFF_DEV_FLAGS,
);

/// Words with bits of the hash, which identify the packet, above the lower bits of its timestamp. Sized by
/// the agent.
type Timestamps = Array<u64, 1>;

#[btf_map]
static RXPATH_ARRIVALS: Timestamps = Timestamps::new();
/// The same for the first time that IP received the packet, where that is hooked.
#[btf_map]
static RXPATH_IP: Timestamps = Timestamps::new();

/// The bits of a timestamp, which wraps after five hours.
const TIMESTAMP_BITS: u32 = 44;
const TIMESTAMP: u64 = (1 << TIMESTAMP_BITS) - 1;

/// From include/uapi/linux/if.h.
const IFF_LOOPBACK: u32 = 1 << 3;

/// The smallest part of the array that is used, as a power of two: one of eight entries.
const LEAST_PART_BITS: u64 = 3;

/// The longest time from a device to the socket, in nanoseconds. It may exceed `same_for`, because a CPU may
/// delay its softirqs for long, and a newer packet of the same name would have replaced the timestamp.
const LONGEST_TRANSIT: u64 = 10_000_000_000;

/// A packet passes a virtual device, and will wait for its softirq.
#[inline(always)]
pub(crate) fn before_softirq(packet: impl Object) {
    note(&RXPATH_ARRIVALS, packet);
}

/// A packet passes a device, within the softirq. Loopback packets were already seen before their softirq, so
/// they are skipped.
#[inline(always)]
pub(crate) fn within_softirq(packet: impl Object) {
    let flags = packet.follow_or_null(&OFF_SKB_DEV).u32(&OFF_DEV_FLAGS);
    if flags.is_none_or(|flags| flags & IFF_LOOPBACK == 0) {
        note(&RXPATH_ARRIVALS, packet);
    }
}

/// A packet is about to be steered to another CPU, if steering applies to it. Unlike at a device, its headers
/// may not all be there yet.
#[inline(always)]
pub(crate) fn before_steering(packet: impl Object) {
    if name::has_headers(packet) {
        note(&RXPATH_ARRIVALS, packet);
    }
}

/// IP receives the packet. The recorded arrival decides whether it is followed, because other packets may be
/// selected by now.
#[inline(always)]
pub(crate) fn at_ip(packet: impl Object) {
    let Some(name) = name::of_packet(packet) else { return };
    if share::follows_all() || is_noted(name) {
        note_at(&RXPATH_IP, name);
    }
}

/// Whether the packet's arrival at a device is recorded, so that it is followed.
#[inline(always)]
pub(crate) fn is_noted(name: Name) -> bool {
    let Some(place) = place_of(&RXPATH_ARRIVALS, name) else { return false };
    // SAFETY: as in `note_at`.
    let noted = unsafe { place.read_volatile() };
    // Most entries belong to other packets: no clock is read for them.
    (noted ^ name.hash) & !TIMESTAMP == 0 && age(noted, name, now()) <= LONGEST_TRANSIT
}

#[inline(always)]
fn note(timestamps: &Timestamps, packet: impl Object) {
    let bits = share::bits();
    let of_flow = share::of_flow(packet, bits);
    if of_flow == Some(false) {
        return;
    }
    let Some(name) = name::of_packet(packet) else { return };
    if of_flow.is_some() || share::of_name(name, bits) {
        note_at(timestamps, name);
    }
}

#[inline(always)]
fn note_at(timestamps: &Timestamps, name: Name) {
    let Some(place) = place_of(timestamps, name) else { return };
    let now = now();
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs; one word is
    // written at once.
    unsafe {
        if age(place.read_volatile(), name, now) > name.same_for {
            place.write_volatile(mark_of(name) | (now & TIMESTAMP));
        }
    }
}

/// When a packet passed its first device, and when IP first received it; 0 if that is not known.
#[inline(always)]
pub(crate) fn of(name: Name, now: u64) -> (u64, u64) {
    (noted(&RXPATH_ARRIVALS, name, now), noted(&RXPATH_IP, name, now))
}

/// Why a packet's arrival at a device is not known. A packet that IP recorded has passed a device, so its
/// entry was overwritten. Where IP is not hooked, a recent entry of another packet may have overwritten it.
#[inline(always)]
pub(crate) fn loss(name: Name, protocol: Protocol, now: u64) -> RxpathLoss {
    let is_overwritten = if points_of(protocol as u32) & u64::from(Point::Ip.bit()) != 0 {
        noted(&RXPATH_IP, name, now) != 0
    } else {
        place_of(&RXPATH_ARRIVALS, name).is_some_and(|place| {
            // SAFETY: as above.
            let other = unsafe { place.read_volatile() };
            other != 0 && now.wrapping_sub(other) & TIMESTAMP <= LONGEST_TRANSIT
        })
    };
    if is_overwritten { RxpathLoss::ArrivalOverwritten } else { RxpathLoss::NoDevice }
}

#[inline(always)]
fn noted(timestamps: &Timestamps, name: Name, now: u64) -> u64 {
    let Some(place) = place_of(timestamps, name) else { return 0 };
    // SAFETY: as above.
    let age = age(unsafe { place.read_volatile() }, name, now);
    if age > LONGEST_TRANSIT { 0 } else { now - age }
}

/// If few packets are followed, a part of the array suffices, and stays in the CPU's caches.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are not so many")]
fn place_of(timestamps: &Timestamps, name: Name) -> Option<*mut u64> {
    let places = 1_u64 << (CFG_ARRIVAL_BITS.load() & 31);
    let bits = share::bits();
    let unused = if bits < LEAST_PART_BITS { bits } else { LEAST_PART_BITS };
    let place = (name.hash >> 16) & (places - 1) >> unused;
    timestamps.get_ptr_mut(place as u32)
}

#[inline(always)]
const fn mark_of(name: Name) -> u64 {
    name.hash & !TIMESTAMP
}

/// The age of the timestamp of the packet with this name; the maximum if the entry belongs to another packet.
#[inline(always)]
const fn age(noted: u64, name: Name, now: u64) -> u64 {
    if (noted ^ name.hash) & !TIMESTAMP == 0 { now.wrapping_sub(noted) & TIMESTAMP } else { u64::MAX }
}
