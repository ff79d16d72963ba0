//! The receive path.

use super::{Emit, Kind, Metric, Unit, histograms};
use crate::snapshot::{PathSample, RxpathSample, Snapshot, Workload};

const PROTOCOLS: &[&str] = &["namespace", "pod", "container", "protocol"];
const STAGES: &[&str] = &["namespace", "pod", "container", "protocol", "stage"];

pub(super) static RXPATH: &[Metric] = &[
    Metric {
        name: "sysprobe_rx_latency",
        unit: Unit::Seconds,
        kind: Kind::Histogram,
        help: "Time from a packet's coming through the first device of this machine to its first byte being \
               copied to a reader. What arrives while a socket has something unread is not observed by \
               itself.",
        labels: PROTOCOLS,
        source: "bpf_ktime_get_ns at netif_rx, netif_receive_skb and tcp_rcv_space_adjust",
        emit: |snapshot, emit| {
            each(snapshot, emit, |workload, protocol, path, emit| {
                emit.histogram(workload, &[("protocol", protocol)], &path.total);
            });
        },
    },
    Metric {
        name: "sysprobe_rx_stage_latency",
        unit: Unit::Seconds,
        kind: Kind::Histogram,
        help: "The same by its stages, whose sums make up the whole: device_to_ip, ip_to_ready (filters, \
               routes, other devices, the connection), ready_to_wakeup, wakeup_to_run (the scheduler), \
               run_to_read (the program). A stage that this kernel cannot tell from the next is one with it, \
               such as device_to_ready.",
        labels: STAGES,
        source: "netif_rx, netif_receive_skb, ip_rcv_core, sk_data_ready, task_struct.sched_info of the \
                 reader, tcp_rcv_space_adjust",
        emit: |snapshot, emit| {
            each(snapshot, emit, |workload, protocol, path, emit| {
                for stage in &path.stages {
                    let labels = [("protocol", protocol), ("stage", stage.name.as_str())];
                    emit.histogram(workload, &labels, &stage.latency);
                }
            });
        },
    },
    Metric {
        name: "sysprobe_rx_followed_ratio",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "What share of the packets is followed now: all while there are few, down to one of 64, chosen \
               at the device by their flows and the time; below one of 16, for one second of \
               eight. Each that is followed counts for as many as it stands for, so rates and quantiles of \
               sysprobe_rx_* are estimates of all; take rates over minutes. `sysprobe latency` has all \
               followed while it runs.",
        labels: &[],
        source: "packets received (/proc/net/softnet_stat), rx_follow_one_in of the configuration",
        emit: |snapshot, emit| {
            if let Some(ratio) = snapshot.agent.rx_followed_ratio {
                emit.value(&[], ratio);
            }
        },
    },
];

fn each(snapshot: &Snapshot, emit: &mut Emit, each: impl Fn(&Workload, &str, &PathSample, &mut Emit)) {
    let of_sample = |workload: &Workload, sample: &RxpathSample, emit: &mut Emit| {
        for (protocol, path) in &sample.protocols {
            each(workload, protocol, path, emit);
        }
    };
    histograms(
        snapshot,
        |row, emit| {
            if let Some(rxpath) = &row.rxpath {
                of_sample(&row.workload, rxpath, emit);
            }
        },
        |pod, workload, emit| of_sample(workload, &pod.rxpath, emit),
        emit,
    );
}
