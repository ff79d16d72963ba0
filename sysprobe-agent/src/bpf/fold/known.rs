//! What registers are known to hold before each instruction: addresses of settings, and their values.

use std::collections::BTreeMap;

use super::liveness::numbered;
use crate::bpf::instruction::{COPY, Instruction, LOAD_WIDE, LOAD_WORD};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The address of a setting with this value.
    Address(i32),
    Value(i32),
}

/// As many as an instruction can name.
const REGISTERS: u8 = 16;

/// What each register holds, if it is known.
type State = [Option<Known>; REGISTERS as usize];

pub(super) struct Registers(Vec<Option<State>>);

impl Registers {
    /// `settings` are the loads of addresses of settings, with the settings' values. Functions begin at
    /// `entries`.
    pub(super) fn of(code: &[Instruction], settings: &BTreeMap<usize, i32>, entries: &[usize]) -> Self {
        let mut before: Vec<Option<State>> = vec![None; code.len()];
        for entry in entries {
            if let Some(state) = before.get_mut(*entry) {
                *state = Some(State::default());
            }
        }
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for (at, instruction) in numbered(code) {
                let Some(state) = before[at] else { continue };
                let after = after(at, instruction, state, settings);
                let flow = instruction.flow(at);
                let next = flow.continues.then_some(at + instruction.slots());
                for follower in next.into_iter().chain(flow.target).filter(|follower| *follower < code.len())
                {
                    let merged = merge(before[follower], after);
                    is_settled &= before[follower] == Some(merged);
                    before[follower] = Some(merged);
                }
            }
        }
        Self(before)
    }

    pub(super) fn before(&self, at: usize, register: u8) -> Option<Known> {
        self.0[at].and_then(|state| state[usize::from(register)])
    }
}

fn after(at: usize, instruction: Instruction, mut state: State, settings: &BTreeMap<usize, i32>) -> State {
    let from = usize::from(instruction.from());
    let known = match instruction.code {
        LOAD_WIDE => settings.get(&at).copied().map(Known::Address),
        LOAD_WORD if instruction.offset == 0 => match state[from] {
            Some(Known::Address(value)) => Some(Known::Value(value)),
            _ => None,
        },
        COPY if instruction.offset == 0 => state[from],
        _ => None,
    };
    let written = instruction.writes();
    for register in (0..REGISTERS).filter(|register| written.has(*register)) {
        state[usize::from(register)] = None;
    }
    if known.is_some() {
        state[usize::from(instruction.to())] = known;
    }
    state
}

/// What is known if control may come from both.
fn merge(one: Option<State>, other: State) -> State {
    let Some(one) = one else { return other };
    std::array::from_fn(|register| one[register].filter(|known| other[register] == Some(*known)))
}
