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
        help: "Time from when a packet passes the first network device of this machine until its first byte \
               is copied to a reader. Data that arrives while its socket has unread data is not observed \
               separately.",
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
        help: "Receive latency by stage; the stages add up to sysprobe_rx_latency_seconds: device_to_ip, \
               ip_to_ready (filters, routes, other devices, the connection), ready_to_wakeup, wakeup_to_run \
               (the scheduler), run_to_read (the program). Stages that this kernel cannot distinguish are \
               merged, for example into device_to_ready.",
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
        help: "Share of the packets that are followed now: all while there are few, down to 1 in 64. They \
               are selected at the first device, by flow and time. If the share is below 1 in 4, packets \
               are selected only during about one second in eight. Each followed packet is weighted by the \
               inverse of the share, so rates and quantiles of sysprobe_rx_* are estimates; take rates over \
               minutes. While `sysprobe latency` runs, all are followed.",
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
