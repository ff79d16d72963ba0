//! The traffic of sockets, TCP included, and their dropped packets.

use super::{Emit, Kind, Metric, Unit};
use crate::snapshot::{Snapshot, TrafficSample, WorkloadSample};

const TRAFFIC: &[&str] = &["namespace", "pod", "container", "protocol", "family"];

pub(super) static NET: &[Metric] = &[
    traffic(
        "sysprobe_network_receive",
        Unit::Bytes,
        "Payload received by sockets, each byte once: for TCP on arrival, for other protocols when it is \
         read.",
        "tcp_sock.bytes_received, without the FIN; sock_recv_length (since Linux 6.3), inet_recvmsg, \
         udp_recvmsg and similar functions",
        |snapshot, emit| each(snapshot, emit, |traffic| traffic.received_bytes),
    ),
    traffic(
        "sysprobe_network_receive_packets",
        Unit::None,
        "Segments received by TCP sockets, pure ACKs included, and datagrams read from sockets of other \
         protocols.",
        "tcp_sock.segs_in; sock_recv_length (since Linux 6.3), inet_recvmsg, udp_recvmsg and similar \
         functions",
        |snapshot, emit| each(snapshot, emit, |traffic| traffic.received_packets),
    ),
    traffic(
        "sysprobe_network_transmit",
        Unit::Bytes,
        "Payload sent by sockets, each byte once: for TCP when the peer acknowledges it.",
        "tcp_sock.bytes_acked, without SYN and FIN; sock_send_length (since Linux 6.3), inet_sendmsg, \
         udp_sendmsg and similar functions",
        |snapshot, emit| each(snapshot, emit, |traffic| traffic.sent_bytes),
    ),
    traffic(
        "sysprobe_network_transmit_packets",
        Unit::None,
        "TCP segments sent for the first time, pure ACKs included, and calls that sent datagrams.",
        "tcp_sock.segs_out less tcp_sock.total_retrans; sock_send_length (since Linux 6.3), inet_sendmsg, \
         udp_sendmsg and similar functions",
        |snapshot, emit| each(snapshot, emit, |traffic| traffic.sent_packets),
    ),
    Metric {
        name: "sysprobe_network_drops",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "IP packets that the kernel dropped, by its reason (enum skb_drop_reason, in lower case). A \
               drop is attributed to the receiving socket (before Linux 6.11, only if that socket had no \
               room for a datagram). Otherwise it is attributed to the sending socket, or without a socket \
               to container=\"kernel\".",
        labels: &["namespace", "pod", "container", "reason"],
        source: "kfree_skb (since Linux 5.17), udp_fail_queue_rcv_skb",
        emit: drops,
    },
];

const fn traffic(
    name: &'static str,
    unit: Unit,
    help: &'static str,
    source: &'static str,
    emit: fn(&Snapshot, &mut Emit),
) -> Metric {
    Metric { name, unit, kind: Kind::Counter, help, labels: TRAFFIC, source, emit }
}

fn each(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&TrafficSample) -> u64) {
    for row in &snapshot.workloads {
        let tcp = row.tcp.iter().flat_map(|tcp| [("tcp", "ipv4", &tcp.ipv4), ("tcp", "ipv6", &tcp.ipv6)]);
        for (protocol, family, traffic) in tcp.chain(datagrams(row)) {
            if *traffic != TrafficSample::default() {
                emit.traffic(&row.workload, [protocol, family], value(traffic) as f64);
            }
        }
    }
}

fn datagrams(row: &WorkloadSample) -> impl Iterator<Item = (&str, &str, &TrafficSample)> {
    row.net.iter().flat_map(|net| &net.traffic).flat_map(|(protocol, families)| {
        families.iter().map(move |(family, traffic)| (protocol.as_str(), family.as_str(), traffic))
    })
}

fn drops(snapshot: &Snapshot, emit: &mut Emit) {
    for row in &snapshot.workloads {
        for (number, packets) in row.net.iter().flat_map(|net| &net.drops) {
            // Drivers and modules define reasons of their own, which are in no kernel type.
            let unnamed = || format!("{number:#x}");
            let reason = snapshot.drop_reasons.get(number).cloned().unwrap_or_else(unnamed);
            emit.workload_with(row, ("reason", &reason), *packets as f64);
        }
    }
}
