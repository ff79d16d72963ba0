//! What was lost, by reason.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::rxpath::RxpathLoss;
use sysprobe_ebpf::counter;

#[btf_map]
static RXPATH_LOSSES: Array<u64, { RxpathLoss::ALL.len() }, { BPF_F_MMAPABLE as usize }> = Array::new();

#[inline(always)]
pub(crate) fn lose(loss: RxpathLoss) {
    counter::count(&RXPATH_LOSSES, loss as u32);
}
