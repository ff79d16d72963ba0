//! When packets came through a device, and when IP had them. A packet that goes from one device to the next (a bridge, a veth pair, a
//! router between them) is known again by its name, and keeps the moment at which it came first.
//!
//! There is nothing to remove and nothing to allocate: an array of moments, in which the newest packet takes the place that it
//! finds by a hash. With each moment goes a part of the hash that tells whose it is.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::settings;

use crate::name::{self, Name};
use crate::way::now;

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

/// In nanoseconds. Not `same_for`: a packet that comes again is noted again, so whatever is noted is of this one, however long a CPU that
/// does not get to its softirqs keeps it.
const LONGEST_WAY: u64 = 10_000_000_000;

/// A packet has come through a device that is none of hardware, and will wait for its softirq.
#[inline(always)]
pub(crate) fn before_softirq(packet: impl Object) {
    note(&RXPATH_ARRIVALS, packet);
}

/// A packet has come through a device, within the softirq. Whatever comes through loopback has been seen before that, which makes a
/// second look worth saving.
#[inline(always)]
pub(crate) fn within_softirq(packet: impl Object) {
    let flags = packet.follow_or_null(&OFF_SKB_DEV).u32(&OFF_DEV_FLAGS);
    if flags.is_none_or(|flags| flags & IFF_LOOPBACK == 0) {
        note(&RXPATH_ARRIVALS, packet);
    }
}

/// IP has it.
#[inline(always)]
pub(crate) fn at_ip(packet: impl Object) {
    note(&RXPATH_IP, packet);
}

#[inline(always)]
fn note(moments: &Moments, packet: impl Object) {
    let Some(name) = name::of_packet(packet) else { return };
    let Some(place) = place_of(moments, name) else { return };
    let now = now();
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs; one word is written at once.
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

#[inline(always)]
fn noted(moments: &Moments, name: Name, now: u64) -> u64 {
    let Some(place) = place_of(moments, name) else { return 0 };
    // SAFETY: as above.
    let age = age(unsafe { place.read_volatile() }, name, now);
    if age > LONGEST_WAY { 0 } else { now - age }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are not so many")]
fn place_of(moments: &Moments, name: Name) -> Option<*mut u64> {
    let place = (name.hash >> 16) & ((1 << (CFG_ARRIVAL_BITS.load() & 31)) - 1);
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
