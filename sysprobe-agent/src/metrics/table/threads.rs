//! The scheduler: threads by state, and load averages. These are gauges: a workload without threads has none.

use sysprobe_common::sched::threads::State;

use super::{Emit, Kind, Metric, Unit};
use crate::snapshot::{Snapshot, WorkloadSample};

pub(super) static THREADS: &[Metric] = &[
    Metric {
        name: "sysprobe_sched_threads",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Threads by state when they were last counted, at most five seconds ago: running (on a CPU), \
               runnable (waiting for one), interruptible, uninterruptible, stopped, traced, idle (kernel \
               threads without work), parked, zombie, dead. The states are those of /proc/PID/task/TID/stat, \
               with R split into running and runnable. The states from stopped to dead have a series only \
               while they have threads. The agent's counting thread counts as running.",
        labels: &["namespace", "pod", "container", "state"],
        source: "task_struct.__state, exit_state and on_cpu of every task, by a task iterator",
        emit: threads,
    },
    Metric {
        name: "sysprobe_sched_load_average",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Load average by the kernel's formula: threads that run, wait for a CPU or sleep \
               uninterruptibly, sampled every five seconds and damped exponentially over the window (1m, 5m, \
               15m). As in the kernel's, throttled threads are left out. It starts at 0 with the agent, with \
               the workload's series, and when the workload has cgroups again after it had none. The agent's \
               counting thread is left out.",
        labels: &["namespace", "pod", "container", "window"],
        source: "as sysprobe_sched_threads, with the formula of kernel/sched/loadavg.c",
        emit: loads,
    },
];

/// These states are always exported, the rare ones only while there are such threads.
const COMMON: [State; 4] = [State::Running, State::Runnable, State::Interruptible, State::Uninterruptible];

fn threads(snapshot: &Snapshot, emit: &mut Emit) {
    for (row, threads) in rows(snapshot, |row| row.sched.as_ref()?.threads) {
        for state in State::ALL {
            let count = threads.of(state);
            if count > 0 || COMMON.contains(&state) {
                emit.workload_with(row, ("state", state.name()), count as f64);
            }
        }
    }
}

fn loads(snapshot: &Snapshot, emit: &mut Emit) {
    for (row, load) in rows(snapshot, |row| row.sched.as_ref()?.load) {
        for (window, average) in load.each() {
            emit.workload_with(row, ("window", window), average);
        }
    }
}

fn rows<T>(
    snapshot: &Snapshot,
    part: impl Fn(&WorkloadSample) -> Option<T>,
) -> impl Iterator<Item = (&WorkloadSample, T)> {
    snapshot.workloads.iter().filter_map(move |row| Some((row, part(row)?)))
}
