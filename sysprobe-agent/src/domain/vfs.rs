//! Storage operations: starts the BPF programs, and adds each cgroup's counters to its workload's totals.

mod limit;
mod registers;
mod syscalls;

use std::time::Instant;

use aya::maps::{Array, MapData};
use sysprobe_common::operation::OperationStats;
use sysprobe_common::vfs::{self, Entered, Operation, SHARDS, VfsLoss, VfsStats};

use crate::bpf::{Lanes, LoadError, Loaded, Loader, MappedArray, Plain, Running};
use crate::domain::in_progress::{Begun, InProgress};
use crate::domain::operation;
use crate::domain::slots::{self, Charge, Counters, SlotTable, Slots};
use crate::domain::traits::{Domain, Start};
use crate::plan::{CPU_SHARDS, Candidate, Plan, Shards};
use crate::probe::vfs::SLOTS;
use crate::probe::{self, ProgramSet};
use crate::snapshot::{LostUpdates, PodTotals, VfsSample, WorkloadSample};
use crate::storage::Store;
use limit::Limit;
pub use limit::Turn;

/// The attached programs and their maps.
pub struct Vfs {
    loaded: Loaded,
    slots: Slots<VfsStats>,
    started: InProgress<Started>,
    losses: Lanes,
    store: Option<Store>,
    /// `None` unless system calls are traced.
    calls: Option<Calls>,
}

/// The state of tracing system calls: every system call on the node runs the programs, whether it concerns
/// storage or not.
struct Calls {
    /// One per CPU.
    entered: MappedArray<Entered>,
    turn: MappedArray<u64>,
    limit: Limit,
    programs: Vec<&'static str>,
}

/// A request of `io_uring` or libaio that has not completed.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Started(vfs::Started);

/// The tracepoints that every system call passes.
const SYSTEM_CALLS: [&str; 2] = ["sys_enter", "sys_exit"];
/// The tracepoints of `io_uring`, which pause together with system calls: otherwise a part of a pod's
/// operations would look like all of them.
const RINGS: [&str; 3] = ["io_uring_submit_req", "io_uring_submit_sqe", "io_uring_complete"];

impl Vfs {
    /// Pauses the tracing of system calls while there are more than the limit allows; returns a change of
    /// that state.
    pub fn keep_to_limit(&mut self, now: Instant) -> Result<Option<Turn>, LoadError> {
        let Some(calls) = &mut self.calls else { return Ok(None) };
        let turn = calls.limit.look(now, calls.entered());
        match turn {
            Some(Turn::Off) => self.loaded.detach(&calls.programs),
            Some(Turn::On) => {
                calls.begin_turn();
                self.started.clear();
                if let Err(error) = self.loaded.attach_again(&calls.programs) {
                    self.loaded.detach(&calls.programs);
                    calls.limit.put_off(now);
                    return Err(error);
                }
            }
            None => {}
        }
        Ok(turn)
    }
}

impl Calls {
    /// `None` if functions are hooked.
    fn of(loaded: &mut Loaded, set: &'static ProgramSet, per_second: u64) -> Result<Option<Self>, LoadError> {
        let mut programs = set.on_tracepoints(&SYSTEM_CALLS);
        if programs.is_empty() {
            return Ok(None);
        }
        programs.extend(set.on_tracepoints(&RINGS));
        let (entered, turn) = (loaded.map_array("VFS_ENTERED")?, loaded.map_array("VFS_TURN")?);
        let mut calls = Self { entered, turn, limit: Limit::new(per_second), programs };
        calls.begin_turn();
        Ok(Some(calls))
    }

    fn begin_turn(&mut self) {
        self.turn.write(0, self.turn.read(0).unwrap_or(0) + 1);
    }

    /// Number of system calls entered so far while the programs were attached.
    fn entered(&self) -> u64 {
        let cpus = (0..self.entered.entries()).filter_map(|cpu| self.entered.read(cpu));
        cpus.map(|entered| entered.calls).fold(0, u64::wrapping_add)
    }
}

impl Domain for Vfs {
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable> {
        vec![&mut self.slots]
    }

    fn losses(&self) -> Vec<LostUpdates> {
        let losses = slots::losses(Self::NAME, &self.losses, VfsLoss::ALL.map(VfsLoss::reason));
        slots::with_more(losses, VfsLoss::EndMissed.reason(), self.started.removed()).collect()
    }

    fn in_use(&self) -> Vec<(&'static str, u64)> {
        vec![self.slots.in_use(), self.started.in_use()]
    }

    fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }

    fn remove_stale(&mut self, now: Instant, now_ns: u64) {
        let refused = self.losses.total(VfsLoss::BeginningMissed as u32);
        self.started.update(refused, now, now_ns);
    }
}

impl Start for Vfs {
    const NAME: &'static str = "vfs";

    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut globals = candidate.globals.clone();
        globals.extend(registers::GLOBALS);
        let by_function = set.on_tracepoints(&SYSTEM_CALLS).is_empty();
        globals.push(("CFG_RING_BY_FUNCTION", u32::from(by_function)));
        if probe::keeps_tasks_in_hash(set.mode) {
            globals.push(registers::RETURN_ADDRESS);
        }
        let (table, sizes) = (plan.transfer_shards.table(), plan.map_sizes(set));
        let mut loaded = loader.load_with_table(set, &globals, Some((CPU_SHARDS, &table)), &sizes)?;
        fill_syscalls(loaded.take_map("VFS_SYSCALLS")?)?;
        let slots = Slots::new(&mut loaded, SLOTS, Shards::ONE)?;
        let started = InProgress::new(&mut loaded, "VFS_STARTED")?;
        let losses = loaded.map_lanes("VFS_LOSSES")?;
        let budget = (Self::NAME, "VFS_BUDGET");
        let store = Store::of_set(&mut loaded, set, budget, &plan.storage)?;
        let calls = Calls::of(&mut loaded, set, plan.vfs_calls_per_second)?;
        loaded.attach()?;
        Ok(Self { loaded, slots, started, losses, store, calls })
    }
}

impl Running for Vfs {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

fn fill_syscalls(mut map: Array<MapData, u32>) -> Result<(), LoadError> {
    for (number, call) in syscalls::table() {
        let failed =
            |error: aya::maps::MapError| LoadError::Map { map: "VFS_SYSCALLS", reason: error.to_string() };
        map.set(number, call.encode(), 0).map_err(failed)?;
    }
    Ok(())
}

// SAFETY: 64-bit integers.
unsafe impl Plain for Entered {}

// SAFETY: 64-bit and 32-bit integers, and arrays of them.
unsafe impl Plain for VfsStats {}

// SAFETY: integers without padding between or behind them.
unsafe impl aya::Pod for Started {}

impl Default for Started {
    fn default() -> Self {
        Self(vfs::Started { start: 0, owner: 0, operations: 0, pad: 0 })
    }
}

impl Begun for Started {
    fn begun_ns(&self) -> u64 {
        self.0.start
    }
}

impl Counters for VfsStats {
    const ZERO: Self = Self {
        transfers: [[OperationStats::ZERO; 2]; SHARDS],
        others: [OperationStats::ZERO; Operation::COUNT - 2],
    };

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        for (own, other) in self.all_mut().zip(other.all()) {
            operation::combine(own, other, wide, narrow);
        }
    }
}

impl Charge for VfsStats {
    fn is_idle(&self) -> bool {
        self.all().all(operation::is_unused)
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        accumulate(workload.vfs.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        accumulate(&mut pod.vfs, self);
    }
}

/// Adds a slot's counters to a workload's or a pod's totals.
fn accumulate(total: &mut VfsSample, gathered: &VfsStats) {
    for operation in Operation::ALL {
        for gathered in gathered.of(operation) {
            operation::accumulate(total.of_mut(operation), gathered);
        }
    }
}
