//! The memory controller: usage and limits of cgroups, and their OOM kills.

use super::{Emit, Kind, Metric, Unit, WORKLOAD};
use crate::snapshot::{MemoryLevels, MemorySample, Snapshot};

pub(super) static MEMORY: &[Metric] = &[
    Metric {
        name: "sysprobe_memory_usage",
        unit: Unit::Bytes,
        kind: Kind::Gauge,
        help: "Memory charged to the cgroup and those below it, page cache included. A pod with a limit of \
               its own also has a series with an empty container; a slice or user@UID.service with a limit \
               has a series, too. They include what is below them, so leave them out of sums over \
               containers.",
        labels: WORKLOAD,
        source: "memory.current; memory.usage_in_bytes on cgroup v1",
        emit: |snapshot, emit| each_level(snapshot, emit, |levels| Some(levels.usage_bytes)),
    },
    Metric {
        name: "sysprobe_memory_working_set",
        unit: Unit::Bytes,
        kind: Kind::Gauge,
        help: "Memory usage without inactive page cache, as the kubelet computes it for evictions.",
        labels: WORKLOAD,
        source: "memory.current less inactive_file of memory.stat; memory.usage_in_bytes less \
                 total_inactive_file on cgroup v1",
        emit: |snapshot, emit| each_level(snapshot, emit, |levels| Some(levels.working_set_bytes)),
    },
    Metric {
        name: "sysprobe_memory_limit",
        unit: Unit::Bytes,
        kind: Kind::Gauge,
        help: "Memory limit. No series without one.",
        labels: WORKLOAD,
        source: "memory.max; memory.limit_in_bytes on cgroup v1",
        emit: |snapshot, emit| each_level(snapshot, emit, |levels| levels.limit_bytes),
    },
    Metric {
        name: "sysprobe_memory_oom_kills",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Processes of the cgroup (on cgroup v2, also of those below it) that were OOM-killed, because \
               of a memory limit or because the machine ran out of memory.",
        labels: WORKLOAD,
        source: "memory.events oom_kill; memory.oom_control on cgroup v1; when a cgroup is removed, \
                 mem_cgroup.memory_events[MEMCG_OOM_KILL]",
        emit: |snapshot, emit| each(snapshot, emit, |memory| memory.oom_kills),
    },
    Metric {
        name: "sysprobe_memory_major_faults",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Page faults that had to wait for storage.",
        labels: WORKLOAD,
        source: "memory.stat pgmajfault; total_pgmajfault on cgroup v1",
        emit: |snapshot, emit| each(snapshot, emit, |memory| memory.major_faults),
    },
];

fn each(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&MemorySample) -> Option<u64>) {
    for row in &snapshot.workloads {
        if let Some(value) = row.memory.as_ref().and_then(&value) {
            emit.workload(row, value as f64);
        }
    }
}

fn each_level(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&MemoryLevels) -> Option<u64>) {
    each(snapshot, emit, |memory| memory.levels.as_ref().and_then(&value));
}
