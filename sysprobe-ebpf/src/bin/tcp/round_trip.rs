//! The round-trip time of connections, sampled during their lifetime.
//!
//! A connection is sampled at reads, at most once a second; by the socket scan, if it only sends; and at its
//! end if it never was. So a connection has weight by its lifetime, however busy it is, and an idle one has
//! none. Where sockets are in a hash, it is sampled when a segment arrives.

use sysprobe_common::tcp::Socket;

use crate::Sock;
use crate::accounting::{add_time, stats_of};
use crate::memory::replace;
use crate::socket::{OFF_TCP_DEVIATION, OFF_TCP_NOW, OFF_TCP_SRTT};

/// `srtt_us` is in eighths of a microsecond, `mdev_us` in quarters.
const SRTT_NS: u64 = 1000 / 8;
const DEVIATION_NS: u64 = 1000 / 4;

/// Samples a connection, unless it was sampled in this second. The socket's own clock stops at its last
/// segment, which is exact enough for that. A reader and the scan may find it due at the same time: the one
/// that notes the sample takes it.
#[inline(always)]
pub(crate) fn sample_if_due(tcp: Sock, remembered: &mut Socket) {
    let now = tcp.load_u64(&OFF_TCP_NOW);
    if !remembered.is_due(now) || remembered.owner == 0 || tcp.load_u32(&OFF_TCP_SRTT) == 0 {
        return;
    }
    let (before, after) = remembered.sampled(now);
    if replace(remembered.times_mut(), before, after) {
        sample(tcp, remembered.owner);
    }
}

/// Samples a connection, if there is anything to sample.
#[inline(always)]
pub(crate) fn sample(tcp: Sock, owner: u64) {
    let srtt = u64::from(tcp.load_u32(&OFF_TCP_SRTT));
    if srtt != 0
        && let Some(stats) = stats_of(owner)
    {
        add_time(&mut stats.srtt, srtt * SRTT_NS);
        add_time(&mut stats.variance, u64::from(tcp.load_u32(&OFF_TCP_DEVIATION)) * DEVIATION_NS);
    }
}
