//! Who made whom wait, and how long. Each CPU keeps the debts that it comes upon to itself, in a table by a hash of the two;
//! one that is in the way of another goes into the map, and so do all of them before the agent reads.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use sysprobe_common::sched::timeline::{DEBTS, DEBTS_IN_MAP};
use sysprobe_common::sched::{Cause, Debt, Debtor, Timeline};
use sysprobe_ebpf::atomic;

use crate::book::blame_nobody;

/// Preallocated: it is filled with a run queue locked.
#[btf_map]
static SCHED_DEBTS: HashMap<Debtor, u64, { DEBTS_IN_MAP as usize }> = HashMap::new();

/// The victim waited while the culprit ran.
#[inline(always)]
pub(crate) fn owe(timeline: &mut Timeline, of: Debtor, ns: u64) {
    if timeline.settling != 0 {
        enter(Debt { of, ns });
        return;
    }
    // SAFETY: the place is within the table.
    let debt = unsafe { timeline.debts.get_unchecked_mut(place_of(of)) };
    if debt.of == of {
        debt.ns += ns;
        return;
    }
    let older = *debt;
    *debt = Debt { of, ns };
    if older.ns != 0 {
        enter(older);
    }
}

/// Moves this CPU's debts into the map.
#[inline(always)]
pub(crate) fn settle(timeline: &mut Timeline) {
    // The run on the agent's own CPU is an ordinary call, which a switch may interrupt.
    timeline.settling = 1;
    for place in 0..DEBTS {
        // SAFETY: the place is within the table.
        let debt = unsafe { timeline.debts.get_unchecked_mut(place & (DEBTS - 1)) };
        if debt.ns != 0 {
            let owed = *debt;
            debt.ns = 0;
            enter(owed);
        }
    }
    timeline.settling = 0;
}

/// Enters a debt into the map. A debt to which another CPU adds the first time at the same moment is found the second time.
#[inline(always)]
pub(crate) fn enter(debt: Debt) {
    if add(debt) || SCHED_DEBTS.insert(debt.of, debt.ns, u64::from(BPF_NOEXIST)).is_ok() || add(debt) {
        return;
    }
    blame_nobody(debt.of.victim, Cause::Unknown, debt.ns);
}

#[inline(always)]
fn add(debt: Debt) -> bool {
    let Some(total) = SCHED_DEBTS.get_ptr_mut(debt.of) else { return false };
    // SAFETY: the pointer is into the map's memory and stays valid while the program runs.
    atomic::add_u64(unsafe { &mut *total }, debt.ns);
    true
}

#[inline(always)]
const fn place_of(of: Debtor) -> usize {
    let mixed = (of.victim ^ of.culprit.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 57) as usize & (DEBTS - 1)
}
