//! Interference: which cgroup made which one wait, and for how long. Each CPU keeps its pairs in a small
//! table of its own, by a hash of the two cgroups. Displaced pairs go into a map, and so does the whole table
//! before the agent reads.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::sched::timeline::{LEAVING, PAIRS};
use sysprobe_common::sched::{Cause, Interference, Pair, Timeline};
use sysprobe_ebpf::volatile::{load_u32, store_u32};
use sysprobe_ebpf::{GOLDEN, atomic};

use crate::losses::lose_place;
use crate::stats::blame_nobody;

/// Sized by the agent. Preallocated, because it is filled with a run queue locked.
#[btf_map]
static SCHED_INTERFERENCE: HashMap<Pair, u64, 1> = HashMap::new();

/// The victim waited while the culprit ran. Returns whether there was room.
///
/// A displaced pair is moved later, by [`send`]: this runs once for each run interval of a wait, and the
/// verifier counts every path through it as often.
#[inline(always)]
pub(crate) fn charge(timeline: &mut Timeline, of: Pair, ns: u64) -> bool {
    let number = timeline.leaving;
    // On the agent's own CPU, `flush` may be an ordinary call, which a switch can interrupt.
    if timeline.flushing != 0 || number.wrapping_sub(timeline.left) as usize >= LEAVING {
        return false;
    }
    // SAFETY: the place is within the table.
    let entry = unsafe { timeline.interference.get_unchecked_mut(place_of(of)) };
    if (entry.of.victim ^ of.victim) | (entry.of.culprit ^ of.culprit) == 0 {
        entry.ns += ns;
        return true;
    }
    // SAFETY: the place is within the queue.
    *unsafe { timeline.on_their_way.get_unchecked_mut(number as usize & (LEAVING - 1)) } = *entry;
    *entry = Interference { of, ns };
    // Read again: the compiler would spill a kept value to the stack, where the verifier tracks it.
    timeline.leaving = load_u32(&timeline.leaving).wrapping_add(1);
    true
}

/// Moves a displaced pair into the map, if there is one. A wait displaces at most one pair for each of its
/// run intervals, and few waits displace more than one.
#[inline(always)]
pub(crate) fn send(timeline: &mut Timeline) -> bool {
    let number = timeline.left;
    if number == timeline.leaving {
        return false;
    }
    // SAFETY: the place is within the queue.
    let entry = *unsafe { timeline.on_their_way.get_unchecked_mut(number as usize & (LEAVING - 1)) };
    timeline.left = number.wrapping_add(1);
    enter(entry);
    true
}

/// Moves all pairs of this CPU into the map.
#[inline(always)]
pub(crate) fn flush(timeline: &mut Timeline) {
    // Volatile, or the compiler may drop the first of the two stores.
    store_u32(&mut timeline.flushing, 1);
    for _ in 0..LEAVING {
        if !send(timeline) {
            break;
        }
    }
    for place in 0..PAIRS {
        // SAFETY: the place is within the table.
        let entry = unsafe { timeline.interference.get_unchecked_mut(place & (PAIRS - 1)) };
        let moved = *entry;
        entry.ns = 0;
        enter(moved);
    }
    store_u32(&mut timeline.flushing, 0);
}

/// Adds a pair to the map. If another CPU inserts the same pair at the same time, the second try finds it.
#[inline(always)]
pub(crate) fn enter(entry: Interference) {
    if entry.ns == 0 {
        return;
    }
    if add(entry)
        || SCHED_INTERFERENCE.insert(entry.of, entry.ns, u64::from(BPF_NOEXIST)).is_ok()
        || add(entry)
    {
        return;
    }
    lose_place(entry.ns);
    blame_nobody(entry.of.victim, Cause::Unknown, entry.ns);
}

#[inline(always)]
fn add(entry: Interference) -> bool {
    let Some(total) = SCHED_INTERFERENCE.get_ptr_mut(entry.of) else { return false };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    atomic::add_u64(unsafe { &mut *total }, entry.ns);
    true
}

#[inline(always)]
const fn place_of(of: Pair) -> usize {
    let mixed = (of.victim ^ of.culprit.rotate_left(32)).wrapping_mul(GOLDEN);
    (mixed >> 57) as usize & (PAIRS - 1)
}
