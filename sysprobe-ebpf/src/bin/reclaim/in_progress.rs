//! A reclaim in one task, from its beginning to its end.

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::btf_map;
use sysprobe_common::reclaim::{Begun, Kind, ReclaimLoss};
use sysprobe_ebpf::clock::now;

use crate::accounting::{book, lose, lose_several};

/// Reclaims in progress, by process and thread id. An entry whose end was missed is replaced when its thread
/// reclaims again; the agent removes the others. Preallocated, and no LRU: an LRU hash reserves free entries
/// for each CPU and evicts live ones to refill them. Sized by the agent.
#[btf_map]
static RECLAIM_BEGUN: HashMap<u64, Begun, 1> = HashMap::new();

#[inline(always)]
pub(crate) fn begin(kind: Kind) {
    let thread = bpf_get_current_pid_tgid();
    if let Some(begun) = find(thread) {
        if begun.kind != kind as u32 {
            begun.within += 1;
            return;
        }
        // Neither kind nests in itself, because a reclaiming task may use the reserve. So the first end was
        // missed.
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
    // It is a part of the outer one.
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
#[expect(clippy::let_underscore_must_use, reason = "the agent may have removed it")]
fn forget(thread: u64) {
    let _ = RECLAIM_BEGUN.remove(thread);
}
