//! Selects the packets that are followed: all, or on a busy machine a share that does not depend on their
//! latency. The programs at devices decide; after that, the recorded arrival does.
//!
//! If the share is small, packets are recorded only for a part of the time. For the rest the agent detaches
//! the programs from their tracepoints: those at readers only when all recorded data has been read. Programs
//! on functions stay attached and check the phase.
//!
//! If a flow has a hash that stays the same along the path, the whole flow is followed for a short time, and
//! then another one: the flow's hash is hashed together with the time. If it has none, the packet's name
//! decides.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::bpf_jiffies64;
use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::{Phase, Point, ShareWord, Unread};
use sysprobe_ebpf::GOLDEN;
use sysprobe_ebpf::atomic::add_u64;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::Object;
use sysprobe_ebpf::volatile::load;

use crate::name::Name;

globals!(
    OFF_SKB_HASH,
    /// Says that the kernel has computed the hash itself, maybe only along the path.
    OFF_SKB_SW_HASH,
    BIT_SKB_SW_HASH,
);

/// By [`ShareWord`]. Written by the agent.
#[btf_map]
static RXPATH_SHARE: Array<u64, { ShareWord::COUNT }, { BPF_F_MMAPABLE as usize }> = Array::new();
/// The number of sockets with followed data of the current slice that has not been read. Data that is not
/// read before the next slice stays counted, so the agent compares two values. Counted only where packets are
/// sampled in time as well.
#[btf_map]
static RXPATH_WAITING: Array<u64, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// How long the same flows are followed, as a power of two of jiffies: from 32 ms (1000 Hz) to 320 ms (100
/// Hz).
const EPOCH_BITS: u32 = 5;

/// How many bits of a hash must be 0 for its flow or packet to be followed.
#[inline(always)]
pub(crate) fn bits() -> u64 {
    word(ShareWord::Bits)
}

/// Whether every packet is followed, so that a missing arrival is a loss.
#[inline(always)]
pub(crate) fn follows_all() -> bool {
    word(ShareWord::WeightBits) == 0
}

#[inline(always)]
fn word(word: ShareWord) -> u64 {
    RXPATH_SHARE.get(word as u32).map_or(0, load)
}

/// Whether packets at devices are recorded now.
#[inline(always)]
pub(crate) fn is_noting() -> bool {
    word(ShareWord::Phase) == Phase::Noting as u64
}

/// Whether the programs are paused now.
#[inline(always)]
pub(crate) fn is_paused() -> bool {
    word(ShareWord::Phase) == Phase::Paused as u64
}

/// Forgets followed data that may have been read while the programs were off.
#[inline(always)]
pub(crate) fn forget_stale(unread: &mut Unread) {
    if unread.waits != 0 && load(&unread.timestamps[Point::Device as usize]) < word(ShareWord::Since) {
        unread.waits = 0;
    }
}

/// A socket's followed data is `new`, and was `before`.
#[inline(always)]
pub(crate) fn count_waiting(before: Option<&Unread>, new: &Unread) {
    if is_recent(new) && !before.is_some_and(|before| before.waits != 0 && is_recent(before)) {
        add_waiting(1);
    }
}

/// The followed data has been read.
#[inline(always)]
pub(crate) fn count_read(unread: &Unread) {
    if is_recent(unread) {
        add_waiting(u64::MAX);
    }
}

/// Whether the data came in the current slice. The agent does not wait for older data.
#[inline(always)]
fn is_recent(unread: &Unread) -> bool {
    load(&unread.timestamps[Point::Device as usize]) >= word(ShareWord::Begun)
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

/// The number of packets that the followed data stands for.
#[inline(always)]
pub(crate) fn weight_of(unread: &Unread) -> u64 {
    load(&unread.weight)
}

/// The number of packets that a packet stands for if it is selected now.
#[inline(always)]
pub(crate) fn weight() -> u64 {
    1 << (word(ShareWord::WeightBits) & 31)
}

/// Whether a packet is followed, if that can be decided without its name.
#[inline(always)]
pub(crate) fn of_flow(packet: impl Object, bits: u64) -> Option<bool> {
    if bits == 0 {
        return Some(true);
    }
    let hash = packet.u32(&OFF_SKB_HASH).filter(|hash| *hash != 0)?;
    // Otherwise, one device might follow the packet and the next one not.
    let is_own = packet.u8(&OFF_SKB_SW_HASH).unwrap_or(0) >> (BIT_SKB_SW_HASH.load() & 7) & 1 != 0;
    if is_own {
        return None;
    }
    // SAFETY: the helper only reads a clock.
    let epoch = unsafe { bpf_jiffies64() } >> EPOCH_BITS;
    Some(is_chosen((u64::from(hash) | epoch << 32).wrapping_mul(GOLDEN), bits))
}

/// The same for a packet without a flow hash.
#[inline(always)]
pub(crate) fn of_name(name: Name, bits: u64) -> bool {
    // Hashed again, because bits of the name's hash are its index in the array.
    is_chosen(name.hash.wrapping_mul(GOLDEN), bits)
}

#[inline(always)]
const fn is_chosen(hash: u64, bits: u64) -> bool {
    hash >> (64 - (bits & 31)) == 0
}
