//! What was lost, by reason.

use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::RxpathLoss;
use sysprobe_ebpf::counter::{self, Lanes};

#[btf_map]
static RXPATH_LOSSES: Lanes = Lanes::new();

#[cold]
#[inline(never)]
pub(crate) fn lose(loss: RxpathLoss) {
    counter::count(&RXPATH_LOSSES, loss as u32);
}
