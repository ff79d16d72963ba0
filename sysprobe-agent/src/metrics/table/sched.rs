//! The scheduler: waits for a CPU with their causes and culprits, context switches, and time on CPU.

use super::{Emit, Kind, Metric, Unit, WORKLOAD, histograms, seconds};
use crate::snapshot::{BlameSample, CausesSample, Culprit, SchedSample, Snapshot, WorkloadSample};

const SWITCHES: &[&str] = &["namespace", "pod", "container", "kind"];
const CAUSES: &[&str] = &["namespace", "pod", "container", "cause"];
const CULPRITS: &[&str] =
    &["namespace", "pod", "container", "culprit_namespace", "culprit_pod", "culprit_container"];

pub(super) static SCHED: &[Metric] = &[
    Metric {
        name: "sysprobe_sched_wakeup_latency",
        unit: Unit::Seconds,
        kind: Kind::Histogram,
        help: "Time from when a task becomes runnable (woken, created or preempted) until it runs on a CPU. \
               Other tools call it run-queue latency.",
        labels: WORKLOAD,
        source: "task_struct.sched_info.run_delay, one observation per arrival on a CPU (pcount)",
        emit: wait_histograms,
    },
    Metric {
        name: "sysprobe_sched_context_switches",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Switches away from a task: voluntary if it went to sleep, involuntary if it was preempted \
               while runnable.",
        labels: SWITCHES,
        source: "task_struct.nvcsw and nivcsw",
        emit: |snapshot, emit| {
            each_sched(snapshot, |row, sched| {
                emit.workload_kind(row, "voluntary", sched.voluntary_switches);
                emit.workload_kind(row, "involuntary", sched.involuntary_switches);
            });
        },
    },
    Metric {
        name: "sysprobe_sched_on_cpu",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "CPU time of tasks since the agent started, up to the last scheduler tick.",
        labels: WORKLOAD,
        source: "task_struct.se.sum_exec_runtime",
        emit: |snapshot, emit| {
            each_sched(snapshot, |row, sched| emit.workload(row, seconds(sched.on_cpu_ns)));
        },
    },
    Metric {
        name: "sysprobe_sched_wait",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Time that runnable tasks waited for a CPU, split by what occupied that CPU during the wait: \
               throttled (the workload's own CPU quota was used up), same_pod, other_pod, system (tasks \
               outside pods), kernel (kernel threads), interrupt (softirqs included), idle (the CPU was idle \
               and had not switched to the task yet), unknown.",
        labels: CAUSES,
        source: "task_struct.sched_info.run_delay, split by the context switches, interrupts and softirqs of \
                 that CPU; frequent softirqs are sampled (at least one in 64 is timed)",
        emit: |snapshot, emit| {
            each_sched(snapshot, |row, sched| {
                for (cause, ns) in sched.causes.iter().flat_map(CausesSample::each) {
                    emit.workload_with(row, ("cause", cause), seconds(ns));
                }
            });
        },
    },
    Metric {
        name: "sysprobe_sched_blame",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Time that runnable tasks waited while another pod, or a workload outside pods \
               (culprit_container), ran on their CPU. The ten worst culprits of each workload are named; the \
               others are summed as culprit_pod=\"other\".",
        labels: CULPRITS,
        source: "as sysprobe_sched_wait_seconds_total{cause=~\"other_pod|system\"}",
        emit: |snapshot, emit| {
            each_sched(snapshot, |row, sched| {
                let BlameSample { culprits, created_ms, other_ns } = &sched.blame;
                for (at, (culprit, ns)) in culprits.iter().enumerate() {
                    emit.culprit(row, culprit, created_ms.get(at).copied(), seconds(*ns));
                }
                if *other_ns > 0 {
                    let other = Culprit { pod: "other".into(), ..Culprit::default() };
                    emit.culprit(row, &other, None, seconds(*other_ns));
                }
            });
        },
    },
];

fn wait_histograms(snapshot: &Snapshot, emit: &mut Emit) {
    histograms(
        snapshot,
        |row, emit| {
            if let Some(sched) = &row.sched {
                emit.fine_histogram(&row.workload, &sched.wait);
            }
        },
        |pod, workload, emit| emit.fine_histogram(workload, &pod.wait),
        emit,
    );
}

fn each_sched(snapshot: &Snapshot, mut emit: impl FnMut(&WorkloadSample, &SchedSample)) {
    for row in &snapshot.workloads {
        if let Some(sched) = &row.sched {
            emit(row, sched);
        }
    }
}
