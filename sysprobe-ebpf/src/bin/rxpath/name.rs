//! The name of a packet: fields that stay the same wherever it is seen. Addresses and ports may be
//! translated, packets cloned, and their memory reused.
//!
//! A TCP segment's name is the number of its first byte. A UDP datagram's name is its length, its first
//! bytes, and its IPv4 identification. Datagrams of one QUIC connection often begin alike and have the
//! identification 0, so 8 bytes would not tell them apart.

use aya_ebpf::helpers::bpf_probe_read_kernel;
use sysprobe_ebpf::GOLDEN;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::packet::{ETH_P_IP, ETH_P_IPV6, OFF_SKB_DATA, OFF_SKB_PROTOCOL, is_version_4};

globals!(
    OFF_SKB_LENGTH,
    OFF_SKB_FRAGMENTS_LENGTH,
    OFF_SKB_HEAD,
    OFF_SKB_NETWORK_HEADER,
    OFF_SKB_TRANSPORT_HEADER
);

#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) hash: u64,
    /// A packet with the same name that comes this much later, in nanoseconds, is another one.
    pub(crate) same_for: u64,
}

/// TCP's minimum time before a retransmission (`TCP_RTO_MIN`).
const SEGMENT_SAME_FOR: u64 = 200_000_000;
/// Processes may send equal datagrams, but rarely within this time.
const DATAGRAM_SAME_FOR: u64 = 20_000_000;

/// VLAN tags (`include/uapi/linux/if_ether.h`): two of them where a provider adds its own.
const ETH_P_8021Q: u16 = 0x8100_u16.to_be();
const ETH_P_8021AD: u16 = 0x88a8_u16.to_be();
const TAGS: usize = 2;
/// A tag and the protocol that follows it.
const TAG_BYTES: u64 = 4;

const TCP: u32 = 6;
const UDP: u32 = 17;
/// Where the transport header begins, in 32-bit words, without IP options.
const IP4_WORDS: usize = 5;
const IP6_WORDS: usize = 10;
const IP4_BYTES: u32 = 20;
/// The words of the transport header and the payload that are read.
const TRANSPORT_WORDS: usize = 4;
const VERSION_4_WITHOUT_OPTIONS: u32 = 0x45;
/// The fragment's offset, without the flags, in the second word of an IPv4 header.
const PLACE_IN_WHOLE: u32 = 0x1fff;

/// Words of a datagram's payload beyond [`Transport`].
const MORE_WORDS: usize = 3;
const MORE_BYTES: u64 = 8;

type Transport = [u32; TRANSPORT_WORDS];

/// The name of a packet at a device. `None` for a packet that is not followed, such as one without data.
#[inline(always)]
pub(crate) fn of_packet(packet: impl Object) -> Option<Name> {
    let (mut protocol, mut data) = (packet.u16(&OFF_SKB_PROTOCOL)?, packet.u64(&OFF_SKB_DATA)?);
    // Devices that leave the tag to the kernel (no `rx-vlan-offload`) pass it here before it is removed.
    for _ in 0..TAGS {
        if !matches!(protocol, ETH_P_8021Q | ETH_P_8021AD) {
            break;
        }
        let [_, inside]: [u16; 2] = read(data)?;
        (protocol, data) = (inside, data + TAG_BYTES);
    }
    match protocol {
        ETH_P_IP => of_version_4(packet, data),
        ETH_P_IPV6 => of_version_6(packet, data),
        _ => None,
    }
}

/// Whether the fields of a packet's name are in its linear part. Drivers may leave headers in fragments, from
/// which GRO and IP pull them.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a few words")]
pub(crate) fn has_headers(packet: impl Object) -> bool {
    const WITH_TRANSPORT: u32 = 4 * (IP4_WORDS + TRANSPORT_WORDS) as u32;
    linear_length(packet) >= WITH_TRANSPORT
}

/// The length of the linear part. The rest, such as all fragments of an IP packet but the first one, is
/// elsewhere.
#[inline(always)]
fn linear_length(packet: impl Object) -> u32 {
    let length = packet.u32(&OFF_SKB_LENGTH).unwrap_or(0);
    length.saturating_sub(packet.u32(&OFF_SKB_FRAGMENTS_LENGTH).unwrap_or(0))
}

/// The name of a TCP segment, from the number of its first byte.
#[inline(always)]
pub(crate) const fn of_segment(first: u32) -> Name {
    Name { hash: (first as u64 | 1 << 32).wrapping_mul(GOLDEN), same_for: SEGMENT_SAME_FOR }
}

/// The name of a datagram that has reached its socket.
#[inline(always)]
pub(crate) fn of_datagram(packet: impl Object) -> Option<Name> {
    let head = packet.u64(&OFF_SKB_HEAD)?;
    let at = |offset: u16| head + u64::from(offset);
    let transport = at(packet.u16(&OFF_SKB_TRANSPORT_HEADER)?);
    let header: Transport = read(transport)?;
    let mut number = 0;
    if is_version_4(packet) {
        let words: [u32; 2] = read(at(packet.u16(&OFF_SKB_NETWORK_HEADER)?))?;
        number = u32::from_be(words[1]) >> 16;
    }
    Some(of_udp(packet, transport, &header, number))
}

#[inline(always)]
fn of_version_4(packet: impl Object, data: u64) -> Option<Name> {
    let words: [u32; IP4_WORDS + TRANSPORT_WORDS] = read(data)?;
    let (first, second) = (u32::from_be(words[0]), u32::from_be(words[1]));
    if first >> 24 != VERSION_4_WITHOUT_OPTIONS || second & PLACE_IN_WHOLE != 0 {
        return None;
    }
    let header = [words[5], words[6], words[7], words[8]];
    match u32::from_be(words[2]) >> 16 & 0xff {
        TCP => of_tcp(&header, (first & 0xffff).saturating_sub(IP4_BYTES)),
        UDP => Some(of_udp(packet, data + 4 * IP4_WORDS as u64, &header, second >> 16)),
        _ => None,
    }
}

#[inline(always)]
fn of_version_6(packet: impl Object, data: u64) -> Option<Name> {
    let words: [u32; IP6_WORDS + TRANSPORT_WORDS] = read(data)?;
    let second = u32::from_be(words[1]);
    let header = [words[10], words[11], words[12], words[13]];
    match second >> 8 & 0xff {
        TCP => of_tcp(&header, second >> 16),
        UDP => Some(of_udp(packet, data + 4 * IP6_WORDS as u64, &header, 0)),
        _ => None,
    }
}

/// A length of 0 means that the packet is longer than the header can say.
#[inline(always)]
fn of_tcp(header: &Transport, length: u32) -> Option<Name> {
    let header_length = u32::from_be(header[3]) >> 28 << 2;
    let has_data = length > header_length || length == 0;
    has_data.then(|| of_segment(u32::from_be(header[1])))
}

/// `transport` is the address of the header. If the payload is shorter than 8 bytes, the next bytes are part
/// of the name: they do not change on the way either.
#[inline(always)]
fn of_udp(packet: impl Object, transport: u64, header: &Transport, number: u32) -> Name {
    let payload = u64::from(header[2]) << 32 | u64::from(header[3]);
    let length = u32::from_be(header[1]) >> 16;
    let mut hash = payload.wrapping_mul(GOLDEN) ^ (u64::from(length) << 16 | u64::from(number));
    let linear = packet.u64(&OFF_SKB_DATA).unwrap_or(0) + u64::from(linear_length(packet));
    hash ^= more_of(transport, linear.min(transport + u64::from(length)));
    Name { hash: hash.wrapping_mul(GOLDEN), same_for: DATAGRAM_SAME_FOR }
}

/// A hash of the payload beyond [`Transport`]: of the whole words before `end`.
#[inline(always)]
fn more_of(transport: u64, end: u64) -> u64 {
    let first = transport + size_of::<Transport>() as u64;
    let mut word_end = first + MORE_BYTES;
    if word_end > end {
        return 0;
    }
    let Some(words) = read::<[u64; MORE_WORDS]>(first) else { return 0 };
    let mut hash = 0_u64;
    for word in words {
        if word_end <= end {
            hash = (hash ^ word).wrapping_mul(GOLDEN).rotate_left(32);
        }
        word_end += MORE_BYTES;
    }
    hash
}

#[inline(always)]
fn read<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address and fails on a bad one; the types are plain integers.
    unsafe { bpf_probe_read_kernel(address as *const T) }.ok()
}
