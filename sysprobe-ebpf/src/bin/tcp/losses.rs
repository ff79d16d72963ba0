//! What was lost, by reason.

use aya_ebpf::macros::btf_map;
use sysprobe_common::tcp::TcpLoss;
use sysprobe_ebpf::counter::{self, Lanes};

#[btf_map]
static TCP_LOSSES: Lanes = Lanes::new();

#[cold]
#[inline(never)]
pub(crate) fn lose(loss: TcpLoss) {
    counter::count(&TCP_LOSSES, loss as u32);
}
