//! The census of all threads: the counts that the iterator makes, and what runs it.

use sysprobe_common::sched::threads::Threads;

use crate::bpf::{LoadError, Loaded, MappedArray, Walk};

pub(super) const MAP: &str = "SCHED_CENSUS";
const PROGRAM: &str = "sched_census";

pub(super) struct Census {
    /// By slot.
    counts: MappedArray<Threads>,
    /// `None` where the kernel has refused the program.
    walk: Option<Walk>,
}

impl Census {
    /// Of an object that is attached.
    pub(super) fn new(loaded: &Loaded, counts: MappedArray<Threads>) -> Result<Self, LoadError> {
        let refused =
            |error: std::io::Error| LoadError::Program { program: PROGRAM, reason: error.to_string() };
        Ok(Self { counts, walk: loaded.walker(PROGRAM).map_err(refused)? })
    }

    /// Has everything counted from zero. The counting itself is left to the caller, who may let go of this meanwhile.
    pub(super) fn begin(&mut self) -> Option<Walk> {
        let walk = self.walk.as_ref()?.try_clone().ok()?;
        for slot in 0..self.counts.entries() {
            if self.counts.read(slot).is_some_and(|threads| threads != Threads::NONE) {
                self.counts.write(slot, Threads::NONE);
            }
        }
        Some(walk)
    }

    pub(super) fn of_slot(&self, slot: u32) -> Threads {
        self.counts.read(slot as usize).unwrap_or(Threads::NONE)
    }
}
