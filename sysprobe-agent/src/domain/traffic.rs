//! Bytes and packets in both directions: how they are combined, and added to a workload's totals.

use sysprobe_common::traffic::Traffic;

use crate::snapshot::TrafficSample;

/// See `slots::Counters::combine`.
pub(crate) fn combine(own: &mut Traffic, other: &Traffic, wide: fn(u64, u64) -> u64) {
    own.received_bytes = wide(own.received_bytes, other.received_bytes);
    own.received_packets = wide(own.received_packets, other.received_packets);
    own.sent_bytes = wide(own.sent_bytes, other.sent_bytes);
    own.sent_packets = wide(own.sent_packets, other.sent_packets);
}

/// Adds what a slot gathered to the totals of a workload.
pub(crate) fn accumulate(total: &mut TrafficSample, gathered: &Traffic) {
    total.received_bytes += gathered.received_bytes;
    total.received_packets += gathered.received_packets;
    total.sent_bytes += gathered.sent_bytes;
    total.sent_packets += gathered.sent_packets;
}
