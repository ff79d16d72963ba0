//! Direct reclaim: tasks that have to free memory before they get any.

use super::{Emit, Kind, Metric, Unit, WORKLOAD, seconds};
use crate::snapshot::{ReclaimSample, Snapshot};

const SOURCE: &str = "mm_vmscan_direct_reclaim_begin to _end, mm_vmscan_memcg_reclaim_begin to _end";

pub(super) static RECLAIM: &[Metric] = &[
    Metric {
        name: "sysprobe_memory_direct_reclaim",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Time that tasks spent in direct reclaim: freeing memory themselves, because the machine had \
               none left or a memory limit was reached.",
        labels: WORKLOAD,
        source: SOURCE,
        emit: |snapshot, emit| each(snapshot, emit, |reclaim| seconds(reclaim.took_ns)),
    },
    Metric {
        name: "sysprobe_memory_direct_reclaims",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Direct reclaims by tasks.",
        labels: WORKLOAD,
        source: SOURCE,
        emit: |snapshot, emit| each(snapshot, emit, |reclaim| reclaim.reclaims as f64),
    },
];

fn each(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&ReclaimSample) -> f64) {
    for row in &snapshot.workloads {
        if let Some(reclaim) = &row.reclaim {
            emit.workload(row, value(reclaim));
        }
    }
}
