//! Counters in lanes (`sysprobe_common::lanes`), mapped into memory.

use sysprobe_common::lanes::{LANES, place};

use super::MappedArray;

pub struct Lanes(MappedArray<u64>);

impl Lanes {
    pub(super) const fn new(words: MappedArray<u64>) -> Self {
        Self(words)
    }

    /// The sum over all lanes.
    #[must_use]
    pub fn total(&self, number: u32) -> u64 {
        (0..LANES).filter_map(|lane| self.0.read(place(lane, number) as usize)).sum()
    }

    /// A number that is in the first lane only, because programs read it.
    #[must_use]
    pub fn shared(&self, number: u32) -> Option<u64> {
        self.0.read(place(0, number) as usize)
    }

    pub fn write_shared(&mut self, number: u32, value: u64) {
        self.0.write(place(0, number) as usize, value);
    }
}
