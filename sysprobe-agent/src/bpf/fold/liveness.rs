//! Which registers are still read after an instruction.

use crate::bpf::instruction::{Instruction, Registers};

/// For each instruction, the registers whose values are read later.
pub(super) struct Live(Vec<Registers>);

impl Live {
    pub(super) fn of(code: &[Instruction]) -> Self {
        let mut before = vec![Registers::default(); code.len()];
        let mut after = before.clone();
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for (at, instruction) in numbered(code).rev() {
                let flow = instruction.flow(at);
                let next = flow.continues.then_some(at + instruction.slots());
                let followers = next.into_iter().chain(flow.target);
                after[at] = followers.fold(Registers::default(), |all, follower| {
                    all.with(before.get(follower).copied().unwrap_or_default())
                });
                let needed = after[at].without(instruction.writes()).with(instruction.reads());
                is_settled &= needed == before[at];
                before[at] = needed;
            }
        }
        Self(after)
    }

    pub(super) fn is_read_after(&self, at: usize, register: u8) -> bool {
        self.0[at].has(register)
    }
}

/// The instructions with their numbers, without the second slots of wide ones.
pub(super) fn numbered(code: &[Instruction]) -> impl DoubleEndedIterator<Item = (usize, Instruction)> {
    let is_second = |at: usize| at > 0 && code[at - 1].slots() == 2;
    code.iter().copied().enumerate().filter(move |(at, _)| !is_second(*at))
}
