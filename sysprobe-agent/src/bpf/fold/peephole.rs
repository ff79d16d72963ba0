//! Changes the instructions. What every later instruction can see stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use super::known::{self, Known};
use super::liveness::{Live, numbered};
use crate::bpf::instruction::{
    ADD, ADD_CONSTANT, COPY, Instruction, LOAD_WORD, NOTHING, Registers, SET_WORD,
};

/// Folds settings whose addresses are loaded by these instructions, with their values. Functions begin at
/// `entries`. Returns the numbers of the loads that are no longer needed.
pub(super) fn fold(
    code: &mut [Instruction],
    settings: &BTreeMap<usize, i32>,
    entries: &[usize],
) -> BTreeSet<usize> {
    let (values, additions) = use_values(code, settings, entries);
    let unused = remove_unread(code, |at| settings.contains_key(&at));
    remove_unread(code, |at| values.contains(&at));
    let blocks = Blocks::of(code, entries);
    let changed = move_into_offsets(code, &blocks, &additions);
    use_originals(code, &blocks, &changed);
    unused
}

/// Replaces loads of settings by their values, and additions of them by additions of constants. Returns the
/// numbers of both.
fn use_values(
    code: &mut [Instruction],
    settings: &BTreeMap<usize, i32>,
    entries: &[usize],
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let known = known::Registers::of(code, settings, entries);
    let (mut values, mut additions) = (BTreeSet::new(), BTreeSet::new());
    for (at, found) in code.iter_mut().enumerate() {
        let (to, from) = (found.to(), found.from());
        match (found.code, known.before(at, from)) {
            (LOAD_WORD, Some(Known::Address(value))) if found.offset == 0 => {
                *found = Instruction::new(SET_WORD, (to, 0), 0, value);
                values.insert(at);
            }
            (ADD, Some(Known::Value(value))) if to != from => {
                *found = Instruction::new(ADD_CONSTANT, (to, 0), 0, value);
                additions.insert(at);
            }
            _ => {}
        }
    }
    (values, additions)
}

/// Where control may enter other than from the instruction before.
struct Blocks(Vec<bool>);

impl Blocks {
    fn of(code: &[Instruction], entries: &[usize]) -> Self {
        let mut entered = vec![false; code.len()];
        let targets = numbered(code).filter_map(|(at, instruction)| instruction.flow(at).target);
        for target in targets.chain(entries.iter().copied()) {
            if let Some(entered) = entered.get_mut(target) {
                *entered = true;
            }
        }
        Self(entered)
    }

    /// The numbers of the instructions after `at` in its basic block.
    fn rest(&self, code: &[Instruction], at: usize) -> Vec<usize> {
        let mut rest = Vec::new();
        let mut last = at;
        while !code[last].ends_block() {
            last += code[last].slots();
            if last >= code.len() || self.0[last] {
                break;
            }
            rest.push(last);
        }
        rest
    }
}

/// Removes such instructions if the register that they write is not read. Returns their numbers.
fn remove_unread(code: &mut [Instruction], is_such: impl Fn(usize) -> bool) -> BTreeSet<usize> {
    let live = Live::of(code);
    let is_unread = |(at, found): &(usize, Instruction)| is_such(*at) && !live.is_read_after(*at, found.to());
    let unread: Vec<_> = numbered(code).filter(is_unread).collect();
    for (at, found) in &unread {
        code[*at..at + found.slots()].fill(NOTHING);
    }
    unread.into_iter().map(|(at, _)| at).collect()
}

/// Moves these additions to pointers into the offsets of the loads through them, and returns the numbers of
/// the loads. Of several additions in a row, the last one comes first.
fn move_into_offsets(
    code: &mut [Instruction],
    blocks: &Blocks,
    additions: &BTreeSet<usize>,
) -> BTreeSet<usize> {
    let live = Live::of(code);
    let mut changed = BTreeSet::new();
    for at in additions.iter().copied().rev() {
        let added = code[at];
        let Some(Uses { loads, .. }) = uses(code, blocks, &live, at, added.to()) else { continue };
        let sum =
            |load: &usize| i16::try_from(i32::from(code[*load].offset).checked_add(added.immediate)?).ok();
        let Some(offsets) = loads.iter().map(sum).collect::<Option<Vec<_>>>() else { continue };
        for (load, offset) in loads.into_iter().zip(offsets) {
            code[load].offset = offset;
            changed.insert(load);
        }
        code[at] = NOTHING;
    }
    changed
}

/// Loads through the original of a copied pointer where all loads through the copy are among these, so that
/// the copy is not needed. In this order, because the original is then read longer than `live` knows, which
/// only concerns copies before this one.
fn use_originals(code: &mut [Instruction], blocks: &Blocks, changed: &BTreeSet<usize>) {
    let live = Live::of(code);
    for at in 0..code.len() {
        let copy = code[at];
        if copy.code != COPY || copy.offset != 0 || copy.to() == copy.from() {
            continue;
        }
        let Some(found) = uses(code, blocks, &live, at, copy.to()) else { continue };
        let are_changed = !found.loads.is_empty() && found.loads.iter().all(|load| changed.contains(load));
        if !are_changed || found.written_before_last.has(copy.from()) {
            continue;
        }
        for load in found.loads {
            let Instruction { code: size, offset, .. } = code[load];
            code[load] = Instruction::new(size, (code[load].to(), copy.from()), offset, 0);
        }
        code[at] = NOTHING;
    }
}

/// The loads through a register.
struct Uses {
    loads: Vec<usize>,
    /// What is written from the first instruction on to the last load, without what that writes.
    written_before_last: Registers,
}

/// All uses of a register from an instruction on, if they are loads through it in the same basic block.
fn uses(code: &[Instruction], blocks: &Blocks, live: &Live, at: usize, register: u8) -> Option<Uses> {
    let mut uses = Uses { loads: Vec::new(), written_before_last: Registers::default() };
    let mut written = Registers::default();
    if !live.is_read_after(at, register) {
        return Some(uses);
    }
    for next in blocks.rest(code, at) {
        let found = code[next];
        if found.is_load() && found.from() == register {
            uses.loads.push(next);
            uses.written_before_last = written;
        } else if found.reads().has(register) {
            return None;
        }
        written = written.with(found.writes());
        if found.writes().has(register) || !live.is_read_after(next, register) {
            return Some(uses);
        }
    }
    None
}

#[cfg(test)]
mod tests;
