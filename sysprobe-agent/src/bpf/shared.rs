//! Maps that one domain's programs share with another's. A program refers to a map by a number
//! (`sysprobe-common/src/shared.rs`); the instruction that loads the number is patched to load the map.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd};

/// `BPF_LD | BPF_DW | BPF_IMM` of include/uapi/linux/bpf.h: takes two instruction slots.
const LOAD_WIDE: u8 = 0x18;
/// `BPF_PSEUDO_MAP_FD` as source register, which is the upper half of its byte.
const MAP: u8 = 1 << 4;

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

/// Instructions have eight bytes, and their sections are aligned to eight bytes.
fn put(object: &mut [u8], number: u64, descriptor: i32) {
    let (low, high) = halves(number);
    let (places, _) = object.as_chunks_mut::<8>();
    for at in 1..places.len() {
        let (first, second) = (places[at - 1], places[at]);
        let loads = first[0] == LOAD_WIDE && first[1] < MAP && second[..4] == [0; 4];
        if loads && first[4..] == low && second[4..] == high {
            places[at - 1][1] |= MAP;
            places[at - 1][4..].copy_from_slice(&descriptor.to_ne_bytes());
            places[at][4..].fill(0);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn halves(number: u64) -> ([u8; 4], [u8; 4]) {
    ((number as u32).to_ne_bytes(), ((number >> 32) as u32).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: u64 = 0x0102_0304_0506_0708;

    fn load(register: u8, number: u64) -> Vec<u8> {
        let (low, high) = halves(number);
        [&[LOAD_WIDE, register, 0, 0], &low[..], &[0; 4], &high[..]].concat()
    }

    #[test]
    fn only_what_loads_the_number_loads_the_map() {
        let object = [load(1, NUMBER), load(2, NUMBER + 1), load(3, NUMBER)].concat();
        let mut put_into = object;
        put(&mut put_into, NUMBER, 9);
        let map =
            |register: u8| [LOAD_WIDE, MAP | register, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
        assert_eq!(put_into, [map(1), load(2, NUMBER + 1), map(3)].concat());
    }
}
