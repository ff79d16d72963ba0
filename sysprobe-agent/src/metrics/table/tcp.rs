//! TCP, except for its traffic, which is in `net` with that of the other protocols.

use super::{Emit, Kind, Metric, Unit, WORKLOAD, histograms};
use crate::probe::SOCKET_SCANS;
use crate::snapshot::{HistogramSample, Snapshot, TcpSample, TcpTimes, WorkloadSample};

const SOCKETS: &str = "struct sock of every socket, by the socket scan";

pub(super) static TCP: &[Metric] = &[
    counter(
        "sysprobe_tcp_sent_segments",
        "TCP segments sent, without retransmissions (OutSegs); includes the SYN-ACKs of connections that \
         were established.",
        WORKLOAD,
        "tcp_sock.segs_out less tcp_sock.total_retrans",
        |snapshot, emit| {
            each(snapshot, emit, |tcp| tcp.ipv4.sent_packets + tcp.ipv6.sent_packets);
        },
    ),
    counter(
        "sysprobe_tcp_retransmitted_segments",
        "Retransmitted TCP segments (RetransSegs), including SYNs and SYN-ACKs.",
        WORKLOAD,
        "tcp_sock.total_retrans, and tcp_retransmit_synack",
        |snapshot, emit| each(snapshot, emit, |tcp| tcp.retransmitted_segments),
    ),
    counter(
        "sysprobe_tcp_retransmitted_syns",
        "Retransmitted SYNs and SYN-ACKs (TCPSynRetrans).",
        WORKLOAD,
        "tcp_sock.total_retrans when a connection is made, and tcp_retransmit_synack",
        |snapshot, emit| each(snapshot, emit, |tcp| tcp.retransmitted_syns),
    ),
    counter(
        "sysprobe_tcp_out_of_order_segments",
        "TCP segments that arrived out of order.",
        WORKLOAD,
        "tcp_sock.rcv_ooopack",
        |snapshot, emit| each(snapshot, emit, |tcp| tcp.out_of_order_segments),
    ),
    histogram(
        "sysprobe_tcp_srtt",
        "Smoothed round-trip time of connections. Each is observed once a second while it is read from, once \
         per scrape while it only sends, and at its end if it had no observation before.",
        "tcp_sock.srtt_us at tcp_rcv_space_adjust, by the socket scan and at the end",
        |snapshot, emit| times(snapshot, emit, |times| &times.srtt),
    ),
    histogram(
        "sysprobe_tcp_rtt_variance",
        "Mean deviation of the round-trip time (rttvar of ss), observed together with it.",
        "tcp_sock.mdev_us at tcp_rcv_space_adjust, by the socket scan and at the end",
        |snapshot, emit| times(snapshot, emit, |times| &times.variance),
    ),
    histogram(
        "sysprobe_tcp_connect_latency",
        "Time from a connection's first SYN until it is established, on the connecting side.",
        "inet_sock_set_state",
        |snapshot, emit| times(snapshot, emit, |times| &times.connect),
    ),
    counter(
        "sysprobe_tcp_connect_failures",
        "Connection attempts that failed after their SYN was sent: refused, timed_out, unreachable, or \
         aborted (by the application, or for another reason).",
        &["namespace", "pod", "container", "reason"],
        "inet_sock_set_state, sock.sk_err",
        |snapshot, emit| {
            for (row, tcp) in rows(snapshot) {
                for (reason, count) in &tcp.connect_failures {
                    emit.workload_with(row, ("reason", reason), *count as f64);
                }
            }
        },
    ),
    counter(
        "sysprobe_tcp_accept_queue_drops",
        "SYNs and final ACKs that listening sockets dropped (ListenDrops), most often because the \
         application did not accept in time. Absent where the domain tcp uses the attach mode raw_tp or \
         kprobe.",
        WORKLOAD,
        "sock.sk_drops of listening sockets",
        |snapshot, emit| {
            if has_program(snapshot, &SOCKET_SCANS) {
                each(snapshot, emit, |tcp| tcp.accept_drops);
            }
        },
    ),
    counter(
        "sysprobe_tcp_accept_queue_overflows",
        "Connections that did not fit into an accept queue (ListenOverflows). Absent where the domain tcp \
         has no function hooks (fentry or kprobe).",
        WORKLOAD,
        "tcp_conn_request, tcp_v4_syn_recv_sock, tcp_v6_syn_recv_sock",
        |snapshot, emit| {
            if has_program(snapshot, &["tcp_syn_in", "tcp_syn_kp"]) {
                each(snapshot, emit, |tcp| tcp.accept_overflows);
            }
        },
    ),
    Metric {
        name: "sysprobe_tcp_receive_window_limited",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Time in which connections had data to send but the peer's receive window was full \
               (rwnd_limited of ss), zero windows included. The resolution is one kernel tick.",
        labels: WORKLOAD,
        source: "tcp_sock.chrono_stat",
        emit: |snapshot, emit| {
            for (row, tcp) in rows(snapshot) {
                emit.workload(row, tcp.window_limited_ns as f64 / 1e9);
            }
        },
    },
    counter(
        "sysprobe_tcp_resets",
        "TCP resets sent and received.",
        &["namespace", "pod", "container", "direction"],
        "tcp_send_reset, tcp_receive_reset",
        |snapshot, emit| {
            for (row, tcp) in rows(snapshot) {
                for (direction, count) in [("sent", tcp.resets_sent), ("received", tcp.resets_received)] {
                    if count > 0 {
                        emit.workload_with(row, ("direction", direction), count as f64);
                    }
                }
            }
        },
    ),
    gauge(
        "sysprobe_tcp_sockets",
        "TCP sockets at the last socket scan, by state. time_wait sockets belong to the kernel and are not \
         included.",
        &["namespace", "pod", "container", "state"],
        |snapshot, emit| {
            for (row, tcp) in rows(snapshot) {
                for (state, count) in &tcp.sockets.by_state {
                    emit.workload_with(row, ("state", state), *count as f64);
                }
            }
        },
    ),
    gauge(
        "sysprobe_tcp_accept_queue_length",
        "Connections in the accept queues of listening sockets.",
        WORKLOAD,
        |snapshot, emit| {
            listening(snapshot, emit, |tcp| tcp.sockets.accept_queue as f64);
        },
    ),
    gauge(
        "sysprobe_tcp_accept_queue_limit",
        "Maximum length of the accept queues, summed over all listening sockets.",
        WORKLOAD,
        |snapshot, emit| {
            listening(snapshot, emit, |tcp| tcp.sockets.accept_queue_limit as f64);
        },
    ),
    gauge(
        "sysprobe_tcp_accept_queue_fullest_ratio",
        "How full the fullest accept queue is, from 0 to 1.",
        WORKLOAD,
        |snapshot, emit| listening(snapshot, emit, |tcp| tcp.sockets.accept_queue_fullest),
    ),
];

type Write = fn(&Snapshot, &mut Emit);

const fn counter(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    source: &'static str,
    emit: Write,
) -> Metric {
    Metric { name, unit: Unit::None, kind: Kind::Counter, help, labels, source, emit }
}

const fn gauge(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    emit: Write,
) -> Metric {
    Metric { name, unit: Unit::None, kind: Kind::Gauge, help, labels, source: SOCKETS, emit }
}

const fn histogram(name: &'static str, help: &'static str, source: &'static str, emit: Write) -> Metric {
    Metric { name, unit: Unit::Seconds, kind: Kind::Histogram, help, labels: WORKLOAD, source, emit }
}

fn rows(snapshot: &Snapshot) -> impl Iterator<Item = (&WorkloadSample, &TcpSample)> {
    snapshot.workloads.iter().filter_map(|row| Some((row, row.tcp.as_ref()?)))
}

/// Whether one of these programs is attached; without it, a 0 would not mean that nothing happened.
fn has_program(snapshot: &Snapshot, names: &[&str]) -> bool {
    snapshot.agent.programs.iter().any(|program| names.contains(&program.program.as_str()))
}

fn each(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&TcpSample) -> u64) {
    for (row, tcp) in rows(snapshot) {
        emit.workload(row, value(tcp) as f64);
    }
}

/// Only workloads with listening sockets.
fn listening(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&TcpSample) -> f64) {
    for (row, tcp) in rows(snapshot).filter(|(_, tcp)| tcp.sockets.accept_queue_limit > 0) {
        emit.workload(row, value(tcp));
    }
}

fn times(snapshot: &Snapshot, emit: &mut Emit, of: impl Fn(&TcpTimes) -> &HistogramSample) {
    histograms(
        snapshot,
        |row, emit| {
            if let Some(tcp) = &row.tcp {
                emit.histogram(&row.workload, &[], of(&tcp.times));
            }
        },
        |pod, workload, emit| emit.histogram(workload, &[], of(&pod.tcp)),
        emit,
    );
}
