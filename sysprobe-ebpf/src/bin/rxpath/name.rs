//! What a packet is known by wherever it is seen: what stays the same on its way. Addresses and ports are
//! translated, packets are cloned, and their places in memory are used again.
//!
//! A segment of TCP has the number of its first byte; a datagram of UDP its length, what it begins with, and
//! version 4's number of it.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use sysprobe_ebpf::GOLDEN;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::packet::{OFF_SKB_DATA, is_ip, is_version_4};
use sysprobe_ebpf::settings;

settings!(
    OFF_SKB_LENGTH,
    OFF_SKB_FRAGMENTS_LENGTH,
    OFF_SKB_HEAD,
    OFF_SKB_NETWORK_HEADER,
    OFF_SKB_TRANSPORT_HEADER
);

#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) hash: u64,
    /// What comes with the same name so much later, in nanoseconds, is another packet.
    pub(crate) same_for: u64,
}

/// As long as TCP waits at least before it sends something again (`TCP_RTO_MIN`).
const SEGMENT_SAME_FOR: u64 = 200_000_000;
/// Programs do say the same again, but not at once.
const DATAGRAM_SAME_FOR: u64 = 20_000_000;

const TCP: u32 = 6;
const UDP: u32 = 17;
/// Where the transport's header begins without options, in 32-bit words.
const IP4_WORDS: usize = 5;
const IP6_WORDS: usize = 10;
const IP4_BYTES: u32 = 20;
/// As many words of what follows as are looked at.
const TRANSPORT_WORDS: usize = 4;
const VERSION_4_WITHOUT_OPTIONS: u32 = 0x45;
/// Of the third word: all of a fragment's place but whether others follow.
const PLACE_IN_WHOLE: u32 = 0x1fff;

type Transport = [u32; TRANSPORT_WORDS];

/// Of a packet that IP is about to get. `None` for what is no data.
#[inline(always)]
pub(crate) fn of_packet(packet: impl Object) -> Option<Name> {
    if !is_ip(packet) {
        return None;
    }
    let data = packet.u64(&OFF_SKB_DATA)?;
    if is_version_4(packet) { of_version_4(data) } else { of_version_6(data) }
}

/// Whether what a packet's name is made of lies in its linear part. Drivers may leave headers in
/// fragments, from which GRO and IP pull them.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a few words")]
pub(crate) fn has_headers(packet: impl Object) -> bool {
    const WITH_TRANSPORT: u32 = 4 * (IP4_WORDS + TRANSPORT_WORDS) as u32;
    let length = packet.u32(&OFF_SKB_LENGTH).unwrap_or(0);
    length.saturating_sub(packet.u32(&OFF_SKB_FRAGMENTS_LENGTH).unwrap_or(0)) >= WITH_TRANSPORT
}

/// Of a segment of TCP.
#[inline(always)]
pub(crate) const fn of_segment(first: u32) -> Name {
    Name { hash: (first as u64 | 1 << 32).wrapping_mul(GOLDEN), same_for: SEGMENT_SAME_FOR }
}

/// Of a datagram that has reached its socket.
#[inline(always)]
pub(crate) fn of_datagram(packet: impl Object) -> Option<Name> {
    let head = packet.u64(&OFF_SKB_HEAD)?;
    let at = |offset: u16| head + u64::from(offset);
    let header: Transport = read(at(packet.u16(&OFF_SKB_TRANSPORT_HEADER)?))?;
    if is_version_4(packet) {
        let words: [u32; 2] = read(at(packet.u16(&OFF_SKB_NETWORK_HEADER)?))?;
        Some(of_udp(&header, u32::from_be(words[1]) >> 16))
    } else {
        Some(of_udp(&header, 0))
    }
}

#[inline(always)]
fn of_version_4(data: u64) -> Option<Name> {
    let words: [u32; IP4_WORDS + TRANSPORT_WORDS] = read(data)?;
    let (first, second) = (u32::from_be(words[0]), u32::from_be(words[1]));
    if first >> 24 != VERSION_4_WITHOUT_OPTIONS || second & PLACE_IN_WHOLE != 0 {
        return None;
    }
    let header = [words[5], words[6], words[7], words[8]];
    match u32::from_be(words[2]) >> 16 & 0xff {
        TCP => of_tcp(&header, (first & 0xffff).saturating_sub(IP4_BYTES)),
        UDP => Some(of_udp(&header, second >> 16)),
        _ => None,
    }
}

#[inline(always)]
fn of_version_6(data: u64) -> Option<Name> {
    let words: [u32; IP6_WORDS + TRANSPORT_WORDS] = read(data)?;
    let second = u32::from_be(words[1]);
    let header = [words[10], words[11], words[12], words[13]];
    match second >> 8 & 0xff {
        TCP => of_tcp(&header, second >> 16),
        UDP => Some(of_udp(&header, 0)),
        _ => None,
    }
}

/// A packet that is longer than its header can say has 0 there.
#[inline(always)]
fn of_tcp(header: &Transport, length: u32) -> Option<Name> {
    let header_length = u32::from_be(header[3]) >> 28 << 2;
    let has_data = length > header_length || length == 0;
    has_data.then(|| of_segment(u32::from_be(header[1])))
}

/// What is shorter than what is looked at has something behind it that stays as well.
#[inline(always)]
fn of_udp(header: &Transport, number: u32) -> Name {
    let payload = u64::from(header[2]) << 32 | u64::from(header[3]);
    let length = u32::from_be(header[1]) >> 16;
    let hash = payload.wrapping_mul(GOLDEN) ^ (u64::from(length) << 16 | u64::from(number));
    Name { hash: hash.wrapping_mul(GOLDEN), same_for: DATAGRAM_SAME_FOR }
}

#[inline(always)]
fn read<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address and fails on a bad one; the types are plain integers.
    unsafe { bpf_probe_read_kernel(address as *const T) }.ok()
}
