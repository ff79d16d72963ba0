//! Sequences as the compiler emits them, and random ones that are run before and after.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::bpf::instruction::{CALL, LOAD_WIDE, SIZE};

const EXIT: u8 = 0x95;
const LOAD_DOUBLE: u8 = 0x79;
const STORE_DOUBLE: u8 = 0x7b;
const MULTIPLY: u8 = 0x2f;
const JUMP_IF_EQUAL: u8 = 0x15;
const JUMP: u8 = 0x05;

fn plain(code: u8, to: u8, from: u8) -> Instruction {
    Instruction::new(code, (to, from), 0, 0)
}

fn load(to: u8, from: u8, offset: i16) -> Instruction {
    Instruction::new(LOAD_DOUBLE, (to, from), offset, 0)
}

fn add(to: u8, value: i32) -> Instruction {
    Instruction::new(ADD_CONSTANT, (to, 0), 0, value)
}

/// The address of a setting, and the load of the setting through it.
fn setting(register: u8) -> [Instruction; 3] {
    [plain(LOAD_WIDE, register, 0), plain(0, 0, 0), plain(LOAD_WORD, register, register)]
}

/// What is left when the setting at the beginning is folded, and whether it is.
fn folded(mut code: Vec<Instruction>, value: i32) -> (Vec<Instruction>, bool) {
    let unused = fold(&mut code, &BTreeMap::from([(0, value)]), &[0]);
    (code.into_iter().filter(|found| *found != NOTHING).collect(), unused == BTreeSet::from([0]))
}

fn program(parts: &[&[Instruction]]) -> Vec<Instruction> {
    parts.concat()
}

#[test]
fn a_member_takes_one_load() {
    let read = [plain(COPY, 2, 7), plain(ADD, 2, 1), load(1, 2, 0), plain(COPY, 0, 1), plain(EXIT, 0, 0)];
    let (code, is_gone) = folded(program(&[&setting(1), &read]), 1200);
    assert_eq!(code, [load(1, 7, 1200), plain(COPY, 0, 1), plain(EXIT, 0, 0)]);
    assert!(is_gone);
}

#[test]
fn a_pointer_from_the_stack_is_loaded_first() {
    let read = [load(2, 10, -48), plain(ADD, 2, 1), load(0, 2, 0), plain(EXIT, 0, 0)];
    let (code, _) = folded(program(&[&setting(1), &read]), 8);
    assert_eq!(code, [load(2, 10, -48), load(0, 2, 8), plain(EXIT, 0, 0)]);
}

#[test]
fn members_of_members_add_up() {
    let mut code = program(&[
        &setting(1),
        &[plain(COPY, 2, 7), plain(ADD, 2, 1)],
        &setting(3),
        &[plain(ADD, 2, 3), load(0, 2, 4), plain(EXIT, 0, 0)],
    ]);
    assert_eq!(fold(&mut code, &BTreeMap::from([(0, 100), (5, 20)]), &[0]), BTreeSet::from([0, 5]));
    code.retain(|found| *found != NOTHING);
    assert_eq!(code, [load(0, 7, 124), plain(EXIT, 0, 0)]);
}

#[test]
fn an_offset_too_large_for_a_load_stays_an_addition() {
    let read = [plain(COPY, 2, 7), plain(ADD, 2, 1), load(0, 2, 0), plain(EXIT, 0, 0)];
    let (code, _) = folded(program(&[&setting(1), &read]), 40_000);
    assert_eq!(code, [plain(COPY, 2, 7), add(2, 40_000), load(0, 2, 0), plain(EXIT, 0, 0)]);
}

#[test]
fn a_pointer_that_is_kept_is_not_changed() {
    // It is stored as well.
    let read =
        [plain(COPY, 2, 7), plain(ADD, 2, 1), load(0, 2, 0), plain(STORE_DOUBLE, 10, 2), plain(EXIT, 0, 0)];
    let (code, _) = folded(program(&[&setting(1), &read]), 8);
    assert_eq!(code[..3], [plain(COPY, 2, 7), add(2, 8), load(0, 2, 0)]);
}

#[test]
fn an_original_that_changes_meanwhile_is_not_used() {
    let read = [plain(COPY, 2, 7), plain(COPY, 7, 6), plain(ADD, 2, 1), load(0, 2, 0), plain(EXIT, 0, 0)];
    let (code, _) = folded(program(&[&setting(1), &read]), 8);
    assert_eq!(code[0], plain(COPY, 2, 7));
}

#[test]
fn the_value_is_kept_where_a_branch_or_a_call_uses_it() {
    let branch = [Instruction::new(JUMP_IF_EQUAL, (1, 0), 1, -1), plain(COPY, 0, 1), plain(EXIT, 0, 0)];
    let (code, is_gone) = folded(program(&[&setting(1), &branch]), 5);
    assert_eq!(code[0], Instruction::new(SET_WORD, (1, 0), 0, 5));
    assert!(is_gone);
    let (code, _) = folded(program(&[&setting(1), &[plain(CALL, 0, 0), plain(EXIT, 0, 0)]]), 5);
    assert_eq!(code[0], Instruction::new(SET_WORD, (1, 0), 0, 5));
}

#[test]
fn another_block_may_load_through_the_same_address() {
    let other = [
        Instruction::new(JUMP_IF_EQUAL, (2, 0), 1, 0),
        plain(LOAD_WORD, 2, 1),
        plain(COPY, 0, 2),
        plain(EXIT, 0, 0),
    ];
    let load = [plain(LOAD_WIDE, 1, 0), plain(0, 0, 0), plain(LOAD_WORD, 2, 1)];
    let (code, is_gone) = folded(program(&[&load, &other]), 5);
    assert_eq!(code[2], Instruction::new(SET_WORD, (2, 0), 0, 5));
    assert!(is_gone);
}

#[test]
fn an_address_that_is_used_otherwise_stays() {
    let load = [plain(LOAD_WIDE, 1, 0), plain(0, 0, 0), plain(LOAD_WORD, 2, 1)];
    let (code, is_gone) =
        folded(program(&[&load, &[plain(STORE_DOUBLE, 10, 1), plain(COPY, 0, 2), plain(EXIT, 0, 0)]]), 5);
    assert_eq!(code[0], load[0]);
    assert!(!is_gone);
    assert_eq!(code[2], Instruction::new(SET_WORD, (2, 0), 0, 5), "the value is known all the same");
}

#[test]
fn what_settings_have_no_part_in_is_left_alone() {
    let own = [Instruction::new(SET_WORD, (1, 0), 0, 8), plain(COPY, 2, 7), plain(ADD, 2, 1), add(2, 16)];
    let rest = [load(0, 2, 0), plain(COPY, 3, 7), load(0, 3, 0), plain(EXIT, 0, 0)];
    let mut code = program(&[&own, &rest]);
    let before = code.clone();
    assert!(fold(&mut code, &BTreeMap::from([]), &[0]).is_empty());
    assert_eq!(code, before);
}

#[test]
fn a_function_knows_nothing_of_the_one_before_it() {
    // The first one never returns.
    let first = [setting(1).to_vec(), vec![plain(CALL, 0, 0)], setting(1).to_vec()].concat();
    let second = [plain(ADD, 2, 1), load(0, 2, 0), plain(EXIT, 0, 0)];
    let mut code = program(&[&first, &second]);
    fold(&mut code, &BTreeMap::from([(0, 8), (4, 8)]), &[0, 7]);
    assert_eq!(code[7..], second);
}

#[test]
fn two_settings_are_told_apart_where_control_joins() {
    let either = [
        Instruction::new(JUMP_IF_EQUAL, (7, 0), 3, 0),
        plain(LOAD_WIDE, 1, 0),
        plain(0, 0, 0),
        Instruction::new(JUMP, (0, 0), 2, 0),
        plain(LOAD_WIDE, 1, 0),
        plain(0, 0, 0),
        plain(LOAD_WORD, 0, 1),
        plain(EXIT, 0, 0),
    ];
    let mut code = either.to_vec();
    fold(&mut code, &BTreeMap::from([(1, 8), (4, 16)]), &[0]);
    assert_eq!(code, either);
}

#[test]
fn a_pointer_that_a_loop_reads_again_is_kept() {
    let code = program(&[
        &setting(1),
        &[plain(COPY, 6, 7), plain(ADD, 6, 1)],
        // The loop begins here.
        &[load(0, 6, 0), Instruction::new(JUMP_IF_EQUAL, (0, 0), -2, 0), plain(EXIT, 0, 0)],
    ]);
    let (code, _) = folded(code, 8);
    assert_eq!(code[..3], [plain(COPY, 6, 7), add(6, 8), load(0, 6, 0)]);
}

/// What a program does that can be seen: stores, calls and branches with their operands, and its result. A
/// program that loops ends after some of them.
fn run(code: &[Instruction], values: &BTreeMap<usize, i32>) -> Vec<(u64, u64)> {
    /// Where the settings lie.
    const SETTINGS: u64 = 1 << 40;
    const EVENTS: usize = 200;
    let mut registers: [u64; 11] = std::array::from_fn(|number| 1_000_000 * (number as u64 + 1));
    let (mut memory, mut events) = (BTreeMap::new(), Vec::new());
    let mut at = 0;
    while events.len() < EVENTS {
        let now = code[at];
        let (to, from) = (usize::from(now.to()), usize::from(now.from()));
        let offset = i64::from(now.offset).cast_unsigned();
        let immediate = i64::from(now.immediate).cast_unsigned();
        let mut next = at + now.slots();
        match now.code {
            LOAD_WIDE => registers[to] = SETTINGS + at as u64,
            LOAD_WORD | LOAD_DOUBLE => {
                let address = registers[from].wrapping_add(offset);
                let is_setting = |(place, _): &(&usize, &i32)| address == SETTINGS + **place as u64;
                let unknown = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                registers[to] = match values.iter().find(is_setting) {
                    Some((_, value)) => i64::from(*value).cast_unsigned(),
                    None => memory.get(&address).copied().unwrap_or(unknown),
                };
            }
            STORE_DOUBLE => {
                let address = registers[to].wrapping_add(offset);
                memory.insert(address, registers[from]);
                events.push((address, registers[from]));
            }
            SET_WORD => registers[to] = immediate & u64::from(u32::MAX),
            COPY => registers[to] = registers[from],
            ADD => registers[to] = registers[to].wrapping_add(registers[from]),
            ADD_CONSTANT => registers[to] = registers[to].wrapping_add(immediate),
            MULTIPLY => registers[to] = registers[to].wrapping_mul(registers[from]),
            CALL => {
                let all =
                    registers[1..6].iter().fold(7_u64, |all, one| all.wrapping_mul(31).wrapping_add(*one));
                events.push((1, all));
                registers[..6].fill(all);
            }
            JUMP_IF_EQUAL => {
                events.push((2, registers[to]));
                if registers[to].is_multiple_of(3) {
                    next = now.flow(at).target.expect("a jump");
                }
            }
            EXIT => {
                events.push((3, registers[0]));
                return events;
            }
            _ => {}
        }
        at = next;
    }
    events
}

fn any_register() -> impl Strategy<Value = u8> {
    0..10_u8
}

/// Instructions that belong together, such as the two slots of a wide load.
fn any_part() -> impl Strategy<Value = Vec<Instruction>> {
    let two = || (any_register(), any_register());
    prop_oneof![
        4 => (any_register(), any_register(), any_register()).prop_map(|(setting_in, object, into)| {
            let read = [plain(COPY, into, object), plain(ADD, into, setting_in), load(setting_in, into, 0)];
            [&setting(setting_in)[..], &read].concat()
        }),
        1 => two().prop_map(|(to, from)| {
            vec![plain(LOAD_WIDE, to, 0), plain(0, 0, 0), plain(LOAD_WORD, from, to)]
        }),
        2 => two().prop_map(|(to, from)| vec![plain(COPY, to, from)]),
        2 => two().prop_map(|(to, from)| vec![plain(ADD, to, from)]),
        1 => two().prop_map(|(to, from)| vec![plain(MULTIPLY, to, from)]),
        2 => two().prop_map(|(to, from)| vec![load(to, from, 16)]),
        1 => two().prop_map(|(to, from)| vec![plain(STORE_DOUBLE, to, from)]),
        1 => (any_register(), 0..50_i32).prop_map(|(to, value)| vec![add(to, value)]),
        1 => Just(vec![plain(CALL, 0, 0)]),
    ]
}

/// A program with jumps between its parts, forward and back.
fn any_program() -> impl Strategy<Value = Vec<Instruction>> {
    let jump = proptest::option::of((any_register(), any::<proptest::sample::Index>()));
    proptest::collection::vec((any_part(), jump), 1..30).prop_map(|parts| {
        let length = |(part, jump): &(Vec<Instruction>, Option<_>)| part.len() + usize::from(jump.is_some());
        let starts: Vec<usize> =
            parts.iter().scan(0, |sum, part| Some(std::mem::replace(sum, *sum + length(part)))).collect();
        let mut code = Vec::new();
        for (part, jump) in parts {
            if let Some((register, target)) = jump {
                let to = i16::try_from(*target.get(&starts)).expect("a short program");
                let behind = i16::try_from(code.len() + 1).expect("a short program");
                code.push(Instruction::new(JUMP_IF_EQUAL, (register, 0), to - behind, 0));
            }
            code.extend(part);
        }
        code.push(plain(EXIT, 0, 0));
        code
    })
}

proptest! {
    #[test]
    fn a_program_does_the_same_as_before(code in any_program(), values: [u16; 16]) {
        let wide = numbered(&code).filter(|(_, found)| found.code == LOAD_WIDE);
        // Of the addresses, some are not those of settings.
        let settings = wide.enumerate().filter(|(number, _)| number % 4 != 3);
        let settings: BTreeMap<_, _> =
            settings.map(|(number, (at, _))| (at, i32::from(values[number % values.len()]))).collect();
        let mut after = code.clone();
        fold(&mut after, &settings, &[0]);
        prop_assert_eq!(run(&after, &settings), run(&code, &settings));
    }

    #[test]
    fn an_instruction_survives_its_bytes(bytes: [u8; SIZE]) {
        prop_assert_eq!(Instruction::from_bytes(bytes).to_bytes(), bytes);
    }
}
