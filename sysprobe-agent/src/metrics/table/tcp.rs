//! TCP. What its sockets send and receive is with the other protocols' in `net`.

use super::{Emit, Kind, Metric, Unit, WORKLOAD, histograms};
use crate::probe::CENSUSES;
use crate::snapshot::{HistogramSample, Snapshot, TcpSample, TcpTimes, WorkloadSample};

const SOCKETS: &str = "struct sock of every socket, when the agent is asked";

pub(super) static TCP: &[Metric] = &[
    counter(
        "sysprobe_tcp_sent_segments",
        "Segments sent, without those sent again (OutSegs), SYN-ACKs of connections that came about \
         included.",
        WORKLOAD,
        "tcp_sock.segs_out less tcp_sock.total_retrans",
        |snapshot, emit| {
            each(snapshot, emit, |tcp| tcp.ipv4.sent_packets + tcp.ipv6.sent_packets);
        },
    ),
    counter(
        "sysprobe_tcp_retransmitted_segments",
        "Segments sent again (RetransSegs), SYNs and SYN-ACKs included.",
        WORKLOAD,
        "tcp_sock.total_retrans, and tcp_retransmit_synack",
        |snapshot, emit| each(snapshot, emit, |tcp| tcp.retransmitted_segments),
    ),
    counter(
        "sysprobe_tcp_retransmitted_syns",
        "Those of them that were SYNs or SYN-ACKs (TCPSynRetrans).",
        WORKLOAD,
        "tcp_sock.total_retrans when a connection is made, and tcp_retransmit_synack",
        |snapshot, emit| each(snapshot, emit, |tcp| tcp.retransmitted_syns),
    ),
    counter(
        "sysprobe_tcp_out_of_order_segments",
        "Segments that arrived before one that was still missing.",
        WORKLOAD,
        "tcp_sock.rcv_ooopack",
        |snapshot, emit| each(snapshot, emit, |tcp| tcp.out_of_order_segments),
    ),
    histogram(
        "sysprobe_tcp_srtt",
        "Smoothed round-trip time of connections: one observation a second and connection while it is read \
         from, one a scrape while it only sends, and one at the end of a connection that had none.",
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
        "Time from a connection's first SYN to its being established, as the side that connects sees it.",
        "inet_sock_set_state",
        |snapshot, emit| times(snapshot, emit, |times| &times.connect),
    ),
    counter(
        "sysprobe_tcp_connect_failures",
        "Connections that were not made: refused, timed_out, unreachable, or aborted by the program or \
         otherwise.",
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
        "SYNs and final ACKs that listening sockets dropped (ListenDrops), most often because nobody \
         accepted in time; there is no such series where sockets cannot be walked (an iterator over all of \
         them).",
        WORKLOAD,
        "sock.sk_drops of listening sockets",
        |snapshot, emit| {
            if has_program(snapshot, &CENSUSES) {
                each(snapshot, emit, |tcp| tcp.accept_drops);
            }
        },
    ),
    counter(
        "sysprobe_tcp_accept_queue_overflows",
        "Connections for which an accept queue had no room (ListenOverflows); there is no such series where \
         functions cannot be hooked.",
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
        help: "Time for which connections had something to send and their peers' receive windows no room for \
               it (rwnd_limited of ss), zero windows included; in ticks of the kernel.",
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
        "Resets sent and received.",
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
        "Sockets now, by state; those of connections that are over (time_wait) are the kernel's own and not \
         among them.",
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
        "Connections that wait to be accepted.",
        WORKLOAD,
        |snapshot, emit| {
            listening(snapshot, emit, |tcp| tcp.sockets.accept_queue as f64);
        },
    ),
    gauge(
        "sysprobe_tcp_accept_queue_limit",
        "How many may wait, over all listening sockets.",
        WORKLOAD,
        |snapshot, emit| {
            listening(snapshot, emit, |tcp| tcp.sockets.accept_queue_limit as f64);
        },
    ),
    gauge(
        "sysprobe_tcp_accept_queue_fullest_ratio",
        "How full the fullest queue of the listening sockets is, from 0 to 1.",
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

/// Whether any of these runs, without which a number would be no number.
fn has_program(snapshot: &Snapshot, names: &[&str]) -> bool {
    snapshot.agent.programs.iter().any(|program| names.contains(&program.program.as_str()))
}

fn each(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&TcpSample) -> u64) {
    for (row, tcp) in rows(snapshot) {
        emit.workload(row, value(tcp) as f64);
    }
}

/// Of those who listen.
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
