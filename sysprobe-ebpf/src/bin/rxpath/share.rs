//! Which packets are followed: all, or on a busy machine a share of them that has nothing to do with how long
//! they take. It is decided where they come through a device; from there on, that a packet was noted says it.
//!
//! Where the share is small, packets are noted a part of the time only: for the rest the agent takes the
//! programs off their tracepoints, those of the readers only when nothing that was noted waits for its
//! reader. Programs on functions stay, and look at the phase.
//!
//! Where a flow has a number that stays the same on the way, all of it is followed for a moment and then
//! another is: the number and the time are hashed together. Where it has none, the packet's name decides.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::bpf_jiffies64;
use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::{Phase, Point, ShareWord, Unread};
use sysprobe_ebpf::GOLDEN;
use sysprobe_ebpf::atomic::add_u64;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::settings;

use crate::name::Name;
use crate::way::load;

settings!(
    OFF_SKB_HASH,
    /// Of a hash that the kernel has computed for itself, maybe on the way only.
    OFF_SKB_SW_HASH,
    BIT_SKB_SW_HASH,
);

/// By [`ShareWord`]. The agent changes them.
#[btf_map]
static RXPATH_SHARE: Array<u64, { ShareWord::COUNT }, { BPF_F_MMAPABLE as usize }> = Array::new();
/// How many sockets hold something that is followed and has not been read, except for what will never be
/// read. Counted where packets are followed a part of the time.
#[btf_map]
static RXPATH_WAITING: Array<u64, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// For how long the same flows are followed, as a power of two of jiffies: from 32 ms (at 1000 a second) to
/// 320 ms (at 100).
const MOMENT_BITS: u32 = 5;

/// How many bits of a hash must be 0 for what it belongs to to be followed.
#[inline(always)]
pub(crate) fn bits() -> u64 {
    word(ShareWord::Bits)
}

#[inline(always)]
fn word(word: ShareWord) -> u64 {
    RXPATH_SHARE.get(word as u32).map_or(0, load)
}

/// Whether what comes through a device is noted now.
#[inline(always)]
pub(crate) fn is_noting() -> bool {
    word(ShareWord::Phase) == Phase::Noting as u64
}

/// Whether nothing is looked at now.
#[inline(always)]
pub(crate) fn is_paused() -> bool {
    word(ShareWord::Phase) == Phase::Paused as u64
}

/// Whether it may have been read while the programs were off.
#[inline(always)]
pub(crate) fn is_stale(unread: &Unread) -> bool {
    load(&unread.moments[Point::Device as usize]) < word(ShareWord::Since)
}

/// A socket holds something that is followed.
#[inline(always)]
pub(crate) fn count_waiting() {
    add_waiting(1);
}

/// It has been read.
#[inline(always)]
pub(crate) fn count_read() {
    add_waiting(u64::MAX);
}

#[inline(always)]
fn add_waiting(number: u64) {
    if word(ShareWord::WeightBits) == bits() {
        return;
    }
    if let Some(waiting) = RXPATH_WAITING.get_ptr_mut(0) {
        // SAFETY: the pointer is into the map's memory and stays valid while the program runs; it is added to
        // atomically.
        add_u64(unsafe { &mut *waiting }, number);
    }
}

/// How many packets what is remembered stands for.
#[inline(always)]
pub(crate) fn weight_of(unread: &Unread) -> u64 {
    load(&unread.weight)
}

/// How many packets each one stands for that is followed now.
#[inline(always)]
pub(crate) fn weight() -> u64 {
    1 << (word(ShareWord::WeightBits) & 31)
}

/// Whether a packet is followed, as far as that shows without its name.
#[inline(always)]
pub(crate) fn of_flow(packet: impl Object, bits: u64) -> Option<bool> {
    if bits == 0 {
        return Some(true);
    }
    let hash = packet.u32(&OFF_SKB_HASH).filter(|hash| *hash != 0)?;
    // Else it would be followed by one device and not by the next.
    let is_own = packet.u8(&OFF_SKB_SW_HASH).unwrap_or(0) >> (BIT_SKB_SW_HASH.load() & 7) & 1 != 0;
    if is_own {
        return None;
    }
    // SAFETY: the helper only reads a clock.
    let moment = unsafe { bpf_jiffies64() } >> MOMENT_BITS;
    Some(is_chosen((u64::from(hash) | moment << 32).wrapping_mul(GOLDEN), bits))
}

/// The same of one without a flow.
#[inline(always)]
pub(crate) fn of_name(name: Name, bits: u64) -> bool {
    // The name's own bits choose its place.
    is_chosen(name.hash.wrapping_mul(GOLDEN), bits)
}

#[inline(always)]
const fn is_chosen(hash: u64, bits: u64) -> bool {
    hash >> (64 - (bits & 31)) == 0
}
