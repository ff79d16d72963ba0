//! A segment arrives: there is no iterator that would go over all sockets, so what they have is booked here.

use crate::memory::{Sock, book_on_the_way, strangers, tcp};
use crate::{life, round_trip};

/// On an established connection.
#[inline(always)]
pub(crate) fn received(socket: Sock) {
    let Some(tcp) = tcp(socket) else { return };
    let Some(remembered) = life::remember(socket, tcp, strangers(socket)) else { return };
    round_trip::sample_if_due(tcp, remembered);
    book_on_the_way(tcp, remembered);
}
