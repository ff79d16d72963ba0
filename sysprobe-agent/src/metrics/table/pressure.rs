//! Pressure stall information: how long tasks of a cgroup waited for a resource.

use super::{Emit, Kind, Metric, Unit, WORKLOAD, seconds};
use crate::snapshot::{PressureSample, Snapshot};

pub(super) static PRESSURE: &[Metric] = &[
    total(
        "sysprobe_pressure_cpu_waiting",
        "Time in which at least one task of the cgroup waited for a CPU, waits caused by its own quota \
         included. A pod as a whole has container=\"\".",
        "cpu.pressure, some",
        |snapshot, emit| each(snapshot, emit, |pressure| pressure.cpu.waiting_ns),
    ),
    total(
        "sysprobe_pressure_cpu_stalled",
        "Time in which tasks of the cgroup waited for a CPU and none ran (since Linux 5.13).",
        "cpu.pressure, full",
        |snapshot, emit| each(snapshot, emit, |pressure| pressure.cpu.stalled_ns),
    ),
    total(
        "sysprobe_pressure_memory_waiting",
        "Time in which at least one task of the cgroup waited for memory: reclaim, swapping in, reading \
         again what was evicted.",
        "memory.pressure, some",
        |snapshot, emit| each(snapshot, emit, |pressure| pressure.memory.waiting_ns),
    ),
    total(
        "sysprobe_pressure_memory_stalled",
        "Time in which all non-idle tasks of the cgroup waited for memory.",
        "memory.pressure, full",
        |snapshot, emit| each(snapshot, emit, |pressure| pressure.memory.stalled_ns),
    ),
    total(
        "sysprobe_pressure_io_waiting",
        "Time in which at least one task of the cgroup waited for I/O.",
        "io.pressure, some",
        |snapshot, emit| each(snapshot, emit, |pressure| pressure.io.waiting_ns),
    ),
    total(
        "sysprobe_pressure_io_stalled",
        "Time in which all non-idle tasks of the cgroup waited for I/O.",
        "io.pressure, full",
        |snapshot, emit| each(snapshot, emit, |pressure| pressure.io.stalled_ns),
    ),
];

const fn total(
    name: &'static str,
    help: &'static str,
    source: &'static str,
    emit: fn(&Snapshot, &mut Emit),
) -> Metric {
    Metric { name, unit: Unit::Seconds, kind: Kind::Counter, help, labels: WORKLOAD, source, emit }
}

fn each(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&PressureSample) -> Option<u64>) {
    for row in &snapshot.workloads {
        if let Some(nanoseconds) = row.pressure.as_ref().and_then(&value) {
            emit.workload(row, seconds(nanoseconds));
        }
    }
}
