//! There is no table of readers here: the programs at segments cost more than those at reads.

use crate::Sock;

#[inline(always)]
pub(crate) const fn is_repeated(_socket: Sock, _tcp: Sock) -> bool {
    false
}

#[inline(always)]
pub(crate) const fn forget(_socket: Sock) {}
