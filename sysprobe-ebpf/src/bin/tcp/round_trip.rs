//! How far away peers are: a connection's round-trip time, sampled while it lives.
//!
//! A connection is sampled when a segment arrives on it, at most once a second, and at its end if it never was. So a
//! busy connection counts as much as a slow one, a long one by its length, and an idle one not at all.

use crate::booking::{add_time, stats_of};
use crate::life;
use crate::memory::{Sock, book_on_the_way, strangers, tcp};
use crate::socket::{OFF_TCP_DEVIATION, OFF_TCP_NOW, OFF_TCP_SRTT};

const SECOND: u64 = 1_000_000;
/// `srtt_us` is in eighths of a microsecond, `mdev_us` in quarters.
const SRTT_NS: u64 = 1000 / 8;
const DEVIATION_NS: u64 = 1000 / 4;

/// A segment arrived on an established connection. The socket's own clock, which stands at the last segment before this one, is
/// good enough to tell a second.
#[inline(always)]
pub(crate) fn received(socket: Sock) {
    let Some(tcp) = tcp(socket) else { return };
    let Some(remembered) = life::remember(socket, tcp, strangers(socket)) else { return };
    let now = tcp.load_u64(&OFF_TCP_NOW);
    let is_due = remembered.sampled_us == 0 || now.wrapping_sub(remembered.sampled_us) >= SECOND;
    if is_due && remembered.owner != 0 && sample(tcp, remembered.owner) {
        remembered.sampled_us = now;
    }
    book_on_the_way(tcp, remembered);
}

/// Says whether there was anything to sample.
#[inline(always)]
pub(crate) fn sample(tcp: Sock, owner: u64) -> bool {
    let srtt = u64::from(tcp.load_u32(&OFF_TCP_SRTT));
    if srtt == 0 {
        return false;
    }
    if let Some(stats) = stats_of(owner) {
        add_time(&mut stats.srtt, srtt * SRTT_NS);
        add_time(&mut stats.variance, u64::from(tcp.load_u32(&OFF_TCP_DEVIATION)) * DEVIATION_NS);
    }
    true
}
