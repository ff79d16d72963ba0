//! Maps that one domain's programs share with another's. A program refers to a map by a number
//! (`sysprobe-common/src/shared.rs`); the instruction that loads the number is patched to load the map.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd};

use super::instruction::{Instruction, SIZE};

/// `BPF_PSEUDO_MAP_FD` as the source register: the number is a map's descriptor.
const MAP: u8 = 1;

/// The shared maps, by number.
#[derive(Default)]
pub(super) struct Shared(RefCell<Vec<(u64, OwnedFd)>>);

impl Shared {
    /// Replaces the map that had the number before.
    pub(super) fn add(&self, number: u64, map: OwnedFd) {
        let mut maps = self.0.borrow_mut();
        maps.retain(|(other, _)| *other != number);
        maps.push((number, map));
    }

    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.0.borrow().iter().any(|(other, _)| *other == number)
    }

    /// Patches the maps into an object. The descriptors stay open until the kernel has loaded the programs.
    pub(super) fn put_into(&self, object: &mut [u8]) {
        for (number, map) in &*self.0.borrow() {
            put(object, *number, map.as_raw_fd());
        }
    }
}

/// Sections of instructions are aligned to eight bytes.
fn put(object: &mut [u8], number: u64, descriptor: i32) {
    let (places, _) = object.as_chunks_mut::<SIZE>();
    for at in 1..places.len() {
        let found = [places[at - 1], places[at]].map(Instruction::from_bytes);
        let to = found[0].to();
        if found == Instruction::load_wide((to, 0), number) {
            let map = Instruction::load_wide((to, MAP), u64::from(descriptor.cast_unsigned()));
            [places[at - 1], places[at]] = map.map(Instruction::to_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: u64 = 0x0102_0304_0506_0708;

    fn load(register: u8, number: u64) -> Vec<u8> {
        load_as((register, 0), number)
    }

    fn load_as(registers: (u8, u8), number: u64) -> Vec<u8> {
        Instruction::load_wide(registers, number).map(Instruction::to_bytes).concat()
    }

    #[test]
    fn only_what_loads_the_number_loads_the_map() {
        let object = [load(1, NUMBER), load(2, NUMBER + 1), load(3, NUMBER)].concat();
        let mut put_into = object;
        put(&mut put_into, NUMBER, 9);
        let map = |register| load_as((register, MAP), 9);
        assert_eq!(put_into, [map(1), load(2, NUMBER + 1), map(3)].concat());
    }
}
