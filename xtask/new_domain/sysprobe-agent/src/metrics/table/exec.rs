//! Programs that tasks start.

use super::{Kind, Metric, Unit, WORKLOAD};

pub(super) static EXEC: &[Metric] = &[Metric {
    name: "sysprobe_execs",
    unit: Unit::None,
    kind: Kind::Counter,
    help: "Programs that tasks started.",
    labels: WORKLOAD,
    source: "sched_process_exec",
    emit: |snapshot, emit| {
        for row in &snapshot.workloads {
            if let Some(exec) = &row.exec {
                emit.workload(row, exec.execs as f64);
            }
        }
    },
}];
