//! A segment arrives. No iterator walks all sockets here, so the connection is accounted for at its segments.

use crate::Sock;
use crate::accounting::book_on_the_way;
use crate::memory::{strangers, tcp};
use crate::{lifecycle, round_trip};

/// An established connection has received a segment.
#[inline(always)]
pub(crate) fn received(socket: Sock) {
    let Some(tcp) = tcp(socket) else { return };
    let Some(remembered) = lifecycle::remember(socket, tcp, strangers(socket)) else { return };
    round_trip::sample_if_due(tcp, remembered);
    book_on_the_way(tcp, remembered);
}
