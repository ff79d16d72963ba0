//! What sockets send and receive, TCP's included, and what is dropped of theirs.

use super::{Emit, Kind, Metric, Unit};
use crate::snapshot::{Snapshot, TrafficSample, WorkloadSample};

const TRAFFIC: &[&str] = &["namespace", "pod", "container", "protocol", "family"];

pub(super) static NET: &[Metric] = &[
    traffic(
        "sysprobe_network_receive",
        Unit::Bytes,
        "Payload that sockets received, each byte once: of TCP when it arrived, of other protocols when it \
         was read.",
        "tcp_sock.bytes_received, without the FIN; sock_recv_length (6.3), inet_recvmsg, inet6_recvmsg",
        |snapshot, emit| each(snapshot, emit, |traffic| traffic.received_bytes),
    ),
    traffic(
        "sysprobe_network_receive_packets",
        Unit::None,
        "Segments that TCP sockets received, pure ACKs included, and datagrams that were read from others.",
        "tcp_sock.segs_in; sock_recv_length (6.3), inet_recvmsg, inet6_recvmsg",
        |snapshot, emit| each(snapshot, emit, |traffic| traffic.received_packets),
    ),
    traffic(
        "sysprobe_network_transmit",
        Unit::Bytes,
        "Payload that sockets sent, each byte once: of TCP what peers acknowledged.",
        "tcp_sock.bytes_acked, without SYN and FIN; sock_send_length (6.3), inet_sendmsg, inet6_sendmsg",
        |snapshot, emit| each(snapshot, emit, |traffic| traffic.sent_bytes),
    ),
    traffic(
        "sysprobe_network_transmit_packets",
        Unit::None,
        "Segments that TCP sockets sent for the first time, pure ACKs included, and calls that sent \
         datagrams.",
        "tcp_sock.segs_out less tcp_sock.total_retrans; sock_send_length (6.3), inet_sendmsg, inet6_sendmsg",
        |snapshot, emit| each(snapshot, emit, |traffic| traffic.sent_packets),
    ),
    Metric {
        name: "sysprobe_network_drops",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Packets of IP that the kernel dropped, with its own reason (enum skb_drop_reason, in lower \
               case), charged to the socket that they were for (Linux 6.11) or came from; those of no socket \
               are the kernel's.",
        labels: &["namespace", "pod", "container", "reason"],
        source: "kfree_skb (5.17), udp_fail_queue_rcv_skb",
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
            // Drivers and modules have reasons of their own, which no type names.
            let unnamed = || format!("{number:#x}");
            let reason = snapshot.drop_reasons.get(number).cloned().unwrap_or_else(unnamed);
            emit.workload_with(row, ("reason", &reason), *packets as f64);
        }
    }
}
