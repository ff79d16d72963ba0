//! What was lost, by reason.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use sysprobe_common::tcp::TcpLoss;
use sysprobe_ebpf::counter;

#[btf_map]
static TCP_LOSSES: Array<u64, { TcpLoss::ALL.len() }, { BPF_F_MMAPABLE as usize }> = Array::new();

#[inline(always)]
pub(crate) fn lose(loss: TcpLoss) {
    counter::count(&TCP_LOSSES, loss as u32);
}
