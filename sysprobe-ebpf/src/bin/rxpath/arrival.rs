//! When packets came through a device. A packet that goes from one device to the next (a bridge, a veth pair, a router between them) is
//! known again by what nobody changes on the way, and keeps the moment at which it came through the first.
//!
//! There is nothing to remove and nothing to allocate: an array of moments, in which the newest packet takes the place that it
//! finds by a hash. With each moment goes a part of the hash that tells whose it is.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::bpf_probe_read_kernel;
use aya_ebpf::macros::btf_map;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::packet::{OFF_SKB_DATA, is_ip, is_version_4};
use sysprobe_ebpf::settings;

settings!(
    /// How many packets are remembered, as a power of two.
    CFG_ARRIVAL_BITS,
);

/// What tells a packet from others, over the lower bits of the moment at which it came. Sized by the agent.
#[btf_map]
static RXPATH_ARRIVALS: Array<u64, 1> = Array::new();

/// How long a moment is told apart from others: five hours.
const MOMENT_BITS: u32 = 44;
const MOMENT: u64 = (1 << MOMENT_BITS) - 1;
/// What comes again later has been sent again: as long as TCP waits at least before it does so.
const SAME_FOR: u64 = 200_000_000;
/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

const TCP: u32 = 6;
/// Where the transport's header begins without options, in 32-bit words.
const IP4_WORDS: usize = 5;
const IP6_WORDS: usize = 10;
const IP4_BYTES: u32 = 20;
const VERSION_4_WITHOUT_OPTIONS: u32 = 0x45;

/// A packet has come through a device.
#[inline(always)]
pub(crate) fn note(packet: impl Object, now: impl Fn() -> u64) {
    let Some(name) = name_of(packet) else { return };
    let Some(place) = place_of(name) else { return };
    let now = now();
    let mark = mark_of(name);
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs; one word is written at once.
    unsafe {
        if age(place.read_volatile(), mark, now) > SAME_FOR {
            place.write_volatile(mark | (now & MOMENT));
        }
    }
}

/// When the segment of TCP with this sequence number came through its first device; 0 if that is not known.
#[inline(always)]
pub(crate) fn of_segment(number: u32, now: u64) -> u64 {
    let name = name_of_segment(number);
    let Some(place) = place_of(name) else { return 0 };
    // SAFETY: as above.
    let age = age(unsafe { place.read_volatile() }, mark_of(name), now);
    if age > SAME_FOR { 0 } else { now - age }
}

#[inline(always)]
fn place_of(name: u64) -> Option<*mut u64> {
    let place = (name >> 16) & ((1 << (CFG_ARRIVAL_BITS.load() & 31)) - 1);
    #[expect(clippy::cast_possible_truncation, reason = "there are not so many")]
    RXPATH_ARRIVALS.get_ptr_mut(place as u32)
}

#[inline(always)]
const fn mark_of(name: u64) -> u64 {
    name & !MOMENT
}

/// How long ago the packet with this mark came, far too long if another's is there.
#[inline(always)]
const fn age(noted: u64, mark: u64, now: u64) -> u64 {
    if (noted ^ mark) & !MOMENT == 0 { now.wrapping_sub(noted) & MOMENT } else { u64::MAX }
}

#[inline(always)]
const fn name_of_segment(number: u32) -> u64 {
    (number as u64 | 1 << 32).wrapping_mul(SPREAD)
}

/// What is the same wherever a packet is seen: of TCP, the number of its first byte. Addresses and ports are translated on the way.
/// `None` for what is no data.
#[inline(always)]
fn name_of(packet: impl Object) -> Option<u64> {
    if !is_ip(packet) {
        return None;
    }
    let data = packet.u64(&OFF_SKB_DATA)?;
    if is_version_4(packet) { name_of_version_4(data) } else { name_of_version_6(data) }
}

#[inline(always)]
fn name_of_version_4(data: u64) -> Option<u64> {
    // SAFETY: the helper checks the address.
    let words = unsafe { bpf_probe_read_kernel(data as *const [u32; IP4_WORDS + 4]) }.ok()?;
    let (first, third) = (u32::from_be(words[0]), u32::from_be(words[2]));
    if first >> 24 != VERSION_4_WITHOUT_OPTIONS || third >> 16 & 0xff != TCP {
        return None;
    }
    let length = (first & 0xffff).saturating_sub(IP4_BYTES);
    name_of_tcp(&[words[5], words[6], words[7], words[8]], length)
}

#[inline(always)]
fn name_of_version_6(data: u64) -> Option<u64> {
    // SAFETY: as above.
    let words = unsafe { bpf_probe_read_kernel(data as *const [u32; IP6_WORDS + 4]) }.ok()?;
    let second = u32::from_be(words[1]);
    if second >> 8 & 0xff != TCP {
        return None;
    }
    name_of_tcp(&[words[10], words[11], words[12], words[13]], second >> 16)
}

/// A packet that is longer than its header can say has 0 there.
#[inline(always)]
fn name_of_tcp(header: &[u32; 4], length: u32) -> Option<u64> {
    let header_length = u32::from_be(header[3]) >> 28 << 2;
    let has_data = length > header_length || length == 0;
    has_data.then(|| name_of_segment(u32::from_be(header[1])))
}
