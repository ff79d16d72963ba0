//! Direct reclaim: how often and for how long tasks have to free memory before they get some, because the
//! machine is short of it or a cgroup has reached its limit. The waiting task's cgroup is charged, whichever
//! cgroup used the memory.
//!
//! Both kinds have a tracepoint at each end, in the context of the task. They are rare, and a reclaim costs
//! the task much more than a few helper calls, so the programs of both attach modes read with helpers.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]

mod accounting;
mod in_progress;

use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};
use sysprobe_common::reclaim::Kind;

/// proto: v5.10- `(int order, gfp_t gfp_flags)`
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_begin")]
fn reclaim_in_tp(_ctx: BtfTracePointContext) -> i32 {
    in_progress::begin(Kind::Machine);
    0
}

/// proto: v5.10- `(unsigned long nr_reclaimed)`
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_end")]
fn reclaim_out_tp(_ctx: BtfTracePointContext) -> i32 {
    in_progress::end(Kind::Machine);
    0
}

/// proto: v5.10- `(int order, gfp_t gfp_flags)`
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
fn reclaim_cin_tp(_ctx: BtfTracePointContext) -> i32 {
    in_progress::begin(Kind::Limit);
    0
}

/// proto: v5.10- `(unsigned long nr_reclaimed)`
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
fn reclaim_cout_tp(_ctx: BtfTracePointContext) -> i32 {
    in_progress::end(Kind::Limit);
    0
}

#[raw_tracepoint(tracepoint = "mm_vmscan_direct_reclaim_begin")]
fn reclaim_in_rt(_ctx: RawTracePointContext) -> i32 {
    in_progress::begin(Kind::Machine);
    0
}

#[raw_tracepoint(tracepoint = "mm_vmscan_direct_reclaim_end")]
fn reclaim_out_rt(_ctx: RawTracePointContext) -> i32 {
    in_progress::end(Kind::Machine);
    0
}

#[raw_tracepoint(tracepoint = "mm_vmscan_memcg_reclaim_begin")]
fn reclaim_cin_rt(_ctx: RawTracePointContext) -> i32 {
    in_progress::begin(Kind::Limit);
    0
}

#[raw_tracepoint(tracepoint = "mm_vmscan_memcg_reclaim_end")]
fn reclaim_cout_rt(_ctx: RawTracePointContext) -> i32 {
    in_progress::end(Kind::Limit);
    0
}

sysprobe_ebpf::object!();
