//! The scan of all threads: the counts that the iterator fills, and the scan that runs it.

use sysprobe_common::sched::threads::Threads;

use crate::bpf::{Loaded, MappedArray, Plain, Scan};

const PROGRAM: &str = "sched_scan";

// SAFETY: 32-bit integers, and an array of them.
unsafe impl Plain for Threads {}

pub(super) struct TaskScan {
    /// One per slot.
    counts: MappedArray<Threads>,
    /// `None` if the kernel rejected the program.
    scan: Option<Scan>,
}

impl TaskScan {
    /// The object must be attached.
    pub(super) fn new(loaded: &Loaded, counts: MappedArray<Threads>) -> Self {
        Self { counts, scan: loaded.scan(PROGRAM) }
    }

    /// Resets all counts. The caller runs the scan itself, and may release this borrow meanwhile.
    pub(super) fn begin(&mut self) -> Option<Scan> {
        let scan = self.scan.clone()?;
        for slot in 0..self.counts.entries() {
            if self.counts.read(slot).is_some_and(|threads| threads != Threads::NONE) {
                self.counts.write(slot, Threads::NONE);
            }
        }
        Some(scan)
    }

    pub(super) fn of_slot(&self, slot: u32) -> Threads {
        self.counts.read(slot as usize).unwrap_or(Threads::NONE)
    }
}
