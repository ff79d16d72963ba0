//! The CPU controller: the limits of cgroups and their usage.

use super::{Emit, Kind, Metric, Unit, WORKLOAD, seconds};
use crate::snapshot::{CpuSample, Snapshot, ThrottleSample, Throttling, WorkloadSample};

pub(super) static CPU: &[Metric] = &[
    Metric {
        name: "sysprobe_cpu_usage",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "CPU time of the cgroup and those below it, as the kernel accounts it. A pod with a quota of \
               its own also has a series with an empty container; a slice or user@UID.service with a quota \
               has a series, too. They include what is below them, so leave them out of sums over \
               containers.",
        labels: WORKLOAD,
        source: "cpu.stat usage_usec; cpuacct.usage on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| Some(seconds(cpu.usage_ns?))),
    },
    Metric {
        name: "sysprobe_cpu_periods",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Enforcement periods of the CPU quota in which the cgroup was runnable.",
        labels: WORKLOAD,
        source: "cpu.stat nr_periods",
        emit: |snapshot, emit| each_throttling(snapshot, emit, |throttling| throttling.periods as f64),
    },
    Metric {
        name: "sysprobe_cpu_throttled_periods",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Enforcement periods in which the cgroup used up its CPU quota and was throttled.",
        labels: WORKLOAD,
        source: "cpu.stat nr_throttled",
        emit: |snapshot, emit| {
            each_throttling(snapshot, emit, |throttling| throttling.throttled_periods as f64);
        },
    },
    Metric {
        name: "sysprobe_cpu_throttled",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Time that the cgroup was throttled, summed over its CPUs. Where a pod and its containers have \
               quotas of their own, both have series, which mostly cover the same time.",
        labels: WORKLOAD,
        source: "cpu.stat throttled_usec; throttled_time on cgroup v1",
        emit: |snapshot, emit| each_throttling(snapshot, emit, |throttling| seconds(throttling.throttled_ns)),
    },
    Metric {
        name: "sysprobe_cpu_throttle_duration",
        unit: Unit::Seconds,
        kind: Kind::Histogram,
        help: "Duration of one throttle of the cgroup on one CPU; the sum is the throttled time. Pods and \
               containers with quotas of their own have separate series.",
        labels: WORKLOAD,
        source: "unthrottle_cfs_rq and tg_unthrottle_up; since 6.18 cfs_rq.throttled_clock and \
                 throttled_clock_self_time, read at the switches of throttled tasks",
        emit: |snapshot, emit| {
            each_throttle(snapshot, |row, throttle| emit.histogram(&row.workload, &[], &throttle.lengths));
        },
    },
    Metric {
        name: "sysprobe_cpu_throttle_threads",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Threads stopped by CPU throttling, summed over all throttles. Divided by \
               sysprobe_cpu_throttle_duration_seconds_count, it is the mean per throttle.",
        labels: WORKLOAD,
        source: "cfs_rq.h_nr_queued (h_nr_running before 6.14); since 6.18 switches of throttled tasks",
        emit: |snapshot, emit| {
            each_throttle(snapshot, |row, throttle| emit.workload(row, throttle.threads as f64));
        },
    },
    Metric {
        name: "sysprobe_cpu_quota",
        unit: Unit::Cores,
        kind: Kind::Gauge,
        help: "CPU limit: quota divided by period. No series without a limit.",
        labels: WORKLOAD,
        source: "cpu.max; cpu.cfs_quota_us and cpu.cfs_period_us on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| cpu.quota_cores),
    },
    Metric {
        name: "sysprobe_cpu_period",
        unit: Unit::Seconds,
        kind: Kind::Gauge,
        help: "Length of an enforcement period of the CPU quota.",
        labels: WORKLOAD,
        source: "cpu.max; cpu.cfs_period_us on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| Some(microseconds(cpu.period_us?))),
    },
    Metric {
        name: "sysprobe_cpu_burst",
        unit: Unit::Seconds,
        kind: Kind::Gauge,
        help: "Unused quota that may be saved up and used on top of the limit.",
        labels: WORKLOAD,
        source: "cpu.max.burst; cpu.cfs_burst_us on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| Some(microseconds(cpu.burst_us?))),
    },
    Metric {
        name: "sysprobe_cpu_weight",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Share of CPU under contention, from 1 to 10000; 100 is the kernel's default.",
        labels: WORKLOAD,
        source: "cpu.weight; cpu.shares by the kubelet's formula on cgroup v1",
        emit: |snapshot, emit| each_cpu_value(snapshot, emit, |cpu| Some(cpu.weight? as f64)),
    },
];

/// Not summed by pod: a pod and its containers are cgroups with quotas of their own, and few have one.
fn each_throttle(snapshot: &Snapshot, mut each: impl FnMut(&WorkloadSample, &ThrottleSample)) {
    for row in &snapshot.workloads {
        if let Some(throttle) = &row.throttle {
            each(row, throttle);
        }
    }
}

fn each_cpu_value(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&CpuSample) -> Option<f64>) {
    for row in &snapshot.workloads {
        if let Some(value) = row.cpu.as_ref().and_then(&value) {
            emit.workload(row, value);
        }
    }
}

/// Only cgroups that have or had a quota get these series.
fn each_throttling(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&Throttling) -> f64) {
    each_cpu_value(snapshot, emit, |cpu| {
        let throttling = cpu.throttling.as_ref()?;
        (cpu.quota_cores.is_some() || throttling.periods > 0).then(|| value(throttling))
    });
}

fn microseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
