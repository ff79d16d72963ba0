//! When packets came through a device, and when IP had them. A packet that goes from one device to the next
//! (a bridge, a veth pair, a router between them) is known again by its name, and keeps the moment at which
//! it came first.
//!
//! There is nothing to remove and nothing to allocate: an array of moments, in which the newest packet takes
//! the place that it finds by a hash. With each moment goes a part of the hash that tells whose it is.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::{Point, Protocol, RxpathLoss};
use sysprobe_ebpf::clock::now;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::settings;

use crate::booking::points_of;
use crate::name::{self, Name};
use crate::share;

settings!(
    /// How many packets are remembered, as a power of two.
    CFG_ARRIVAL_BITS,
    OFF_SKB_DEV,
    OFF_DEV_FLAGS,
);

/// What tells a packet from others, over the lower bits of the moment at which it came. Sized by the agent.
type Moments = Array<u64, 1>;

#[btf_map]
static RXPATH_ARRIVALS: Moments = Moments::new();
/// The same of the first time that IP had it, where that is seen.
#[btf_map]
static RXPATH_IP: Moments = Moments::new();

/// How long a moment is told apart from others: five hours.
const MOMENT_BITS: u32 = 44;
const MOMENT: u64 = (1 << MOMENT_BITS) - 1;

/// From include/uapi/linux/if.h.
const IFF_LOOPBACK: u32 = 1 << 3;

/// At least one of 2^n places is used, of 2^n packets and more.
const LEAST_PART_BITS: u64 = 3;

/// In nanoseconds. Not `same_for`: a packet that comes again is noted again, so whatever is noted is of this
/// one, however long a CPU that does not get to its softirqs keeps it.
const LONGEST_WAY: u64 = 10_000_000_000;

/// A packet has come through a device that is none of hardware, and will wait for its softirq.
#[inline(always)]
pub(crate) fn before_softirq(packet: impl Object) {
    note(&RXPATH_ARRIVALS, packet);
}

/// A packet has come through a device, within the softirq. Whatever comes through loopback has been seen
/// before that, which makes a second look worth saving.
#[inline(always)]
pub(crate) fn within_softirq(packet: impl Object) {
    let flags = packet.follow_or_null(&OFF_SKB_DEV).u32(&OFF_DEV_FLAGS);
    if flags.is_none_or(|flags| flags & IFF_LOOPBACK == 0) {
        note(&RXPATH_ARRIVALS, packet);
    }
}

/// A packet is about to be steered to another CPU, or would be if it is. Unlike at a device, its
/// headers may not all be there yet.
#[inline(always)]
pub(crate) fn before_steering(packet: impl Object) {
    if name::has_headers(packet) {
        note(&RXPATH_ARRIVALS, packet);
    }
}

/// IP has it. What has waited for that has waited into a time when others are followed.
#[inline(always)]
pub(crate) fn at_ip(packet: impl Object) {
    let Some(name) = name::of_packet(packet) else { return };
    if share::bits() == 0 || is_noted(name) {
        note_at(&RXPATH_IP, name);
    }
}

/// Whether it came through a device, and is followed.
#[inline(always)]
pub(crate) fn is_noted(name: Name) -> bool {
    let Some(place) = place_of(&RXPATH_ARRIVALS, name) else { return false };
    // SAFETY: as in `note_at`.
    let noted = unsafe { place.read_volatile() };
    // Most are another's: no clock is read for them.
    (noted ^ name.hash) & !MOMENT == 0 && age(noted, name, now()) <= LONGEST_WAY
}

#[inline(always)]
fn note(moments: &Moments, packet: impl Object) {
    let bits = share::bits();
    let of_flow = share::of_flow(packet, bits);
    if of_flow == Some(false) {
        return;
    }
    let Some(name) = name::of_packet(packet) else { return };
    if of_flow.is_some() || share::of_name(name, bits) {
        note_at(moments, name);
    }
}

#[inline(always)]
fn note_at(moments: &Moments, name: Name) {
    let Some(place) = place_of(moments, name) else { return };
    let now = now();
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs; one word is
    // written at once.
    unsafe {
        if age(place.read_volatile(), name, now) > name.same_for {
            place.write_volatile(mark_of(name) | (now & MOMENT));
        }
    }
}

/// When a packet came through its first device, and when IP had it first; 0 if that is not known.
#[inline(always)]
pub(crate) fn of(name: Name, now: u64) -> (u64, u64) {
    (noted(&RXPATH_ARRIVALS, name, now), noted(&RXPATH_IP, name, now))
}

/// Why it is not known when a packet came through a device. What IP has noted has passed a device
/// before; where IP is not seen, a packet that came lately may have taken the place.
#[inline(always)]
pub(crate) fn loss(name: Name, protocol: Protocol, now: u64) -> RxpathLoss {
    let is_overwritten = if points_of(protocol as u32) & u64::from(Point::Ip.bit()) != 0 {
        noted(&RXPATH_IP, name, now) != 0
    } else {
        place_of(&RXPATH_ARRIVALS, name).is_some_and(|place| {
            // SAFETY: as above.
            let other = unsafe { place.read_volatile() };
            other != 0 && now.wrapping_sub(other) & MOMENT <= LONGEST_WAY
        })
    };
    if is_overwritten { RxpathLoss::ArrivalOverwritten } else { RxpathLoss::NoDevice }
}

#[inline(always)]
fn noted(moments: &Moments, name: Name, now: u64) -> u64 {
    let Some(place) = place_of(moments, name) else { return 0 };
    // SAFETY: as above.
    let age = age(unsafe { place.read_volatile() }, name, now);
    if age > LONGEST_WAY { 0 } else { now - age }
}

/// Where few are followed, a part of the array is enough for them, and stays in the CPU's caches.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are not so many")]
fn place_of(moments: &Moments, name: Name) -> Option<*mut u64> {
    let places = 1_u64 << (CFG_ARRIVAL_BITS.load() & 31);
    let bits = share::bits();
    let unused = if bits < LEAST_PART_BITS { bits } else { LEAST_PART_BITS };
    let place = (name.hash >> 16) & (places - 1) >> unused;
    moments.get_ptr_mut(place as u32)
}

#[inline(always)]
const fn mark_of(name: Name) -> u64 {
    name.hash & !MOMENT
}

/// How long ago the packet with this name came, far too long if another's moment is there.
#[inline(always)]
const fn age(noted: u64, name: Name, now: u64) -> u64 {
    if (noted ^ name.hash) & !MOMENT == 0 { now.wrapping_sub(noted) & MOMENT } else { u64::MAX }
}
