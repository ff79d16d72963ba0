//! From the beginning of a reclaim to its end, in one task.

use aya_ebpf::btf_maps::LruHashMap;
use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns};
use aya_ebpf::macros::btf_map;
use sysprobe_common::reclaim::{Begun, Kind, ReclaimLoss};

use crate::booking::{book, lose, lose_several};

/// By thread: process and thread id. A thread cannot end while it is at it, so an entry stays only if its end was not seen; such
/// a one is found when the thread begins again, or pushed out. Sized by the agent.
#[btf_map]
static RECLAIM_BEGUN: LruHashMap<u64, Begun, 1> = LruHashMap::new();

#[inline(always)]
pub(crate) fn begin(kind: Kind) {
    let thread = bpf_get_current_pid_tgid();
    if let Some(begun) = find(thread) {
        if begun.kind != kind as u32 {
            begun.within += 1;
            return;
        }
        // Neither kind begins within itself: whoever frees memory may use the reserve.
        lose_several(ReclaimLoss::EndMissed, 1 + u64::from(begun.within));
    }
    let begun = Begun { at: now(), kind: kind as u32, within: 0 };
    if RECLAIM_BEGUN.insert(thread, begun, 0).is_err() {
        lose(ReclaimLoss::NoMemory);
    }
}

#[inline(always)]
pub(crate) fn end(kind: Kind) {
    let thread = bpf_get_current_pid_tgid();
    let Some(begun) = find(thread) else {
        lose(ReclaimLoss::BeginMissed);
        return;
    };
    // A part of the outer one.
    if begun.kind != kind as u32 {
        return;
    }
    let at = begun.at;
    forget(thread);
    let took = now().checked_sub(at).unwrap_or_else(|| {
        lose(ReclaimLoss::BackwardsClock);
        0
    });
    book(took);
}

#[inline(always)]
fn find(thread: u64) -> Option<&'static mut Begun> {
    let begun = RECLAIM_BEGUN.get_ptr_mut(thread)?;
    // SAFETY: only the thread itself uses its entry.
    Some(unsafe { &mut *begun })
}

#[inline(always)]
#[expect(clippy::let_underscore_must_use, reason = "it was there a moment ago, and may have been pushed out")]
fn forget(thread: u64) {
    let _ = RECLAIM_BEGUN.remove(thread);
}

#[inline(always)]
fn now() -> u64 {
    // SAFETY: the helper only returns a number.
    unsafe { bpf_ktime_get_ns() }
}
