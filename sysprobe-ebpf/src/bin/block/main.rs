//! The block layer: requests by cgroup, device and kind, how long they took, and how much of that passed
//! before the driver got them.
//!
//! A request is recorded from its submission, where its owner is known, to its end, which may occur on any
//! CPU during any task. Its duration begins with the kernel's own timestamp.
#![no_std]
#![no_main]
#![expect(clippy::inline_always, reason = "a BPF-to-BPF call costs more than these bodies")]
#![expect(clippy::needless_pass_by_value, reason = "the macros call programs with an owned context")]

mod accounting;
mod lifecycle;
mod owner;
mod request;

use aya_ebpf::macros::{btf_tracepoint, raw_tracepoint};
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};
use aya_ebpf::{EbpfContext, Global};
use sysprobe_ebpf::argument::second_or_first;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Address, Typed};

globals!(
    /// The number of parameters of each tracepoint, including the one that programs do not see. Kernels
    /// before 5.11 (some before 5.10.137) pass the queue first.
    PARAMS_GETRQ,
    PARAMS_INSERT,
    PARAMS_ISSUE,
    PARAMS_MERGE,
);

/// The request or bio. It comes after the queue where the kernel passes that.
#[inline(always)]
fn subject(ctx: impl EbpfContext, parameters: &Global<u32>) -> u64 {
    // SAFETY: the context of a tracepoint, and the kernel's types say how many arguments it has.
    unsafe { second_or_first(ctx.as_ptr(), parameters.load() > 2) }
}

/// # Safety
///
/// As for `Typed::new`.
#[inline(always)]
unsafe fn typed(argument: u64) -> Typed {
    // SAFETY: the caller's promise.
    unsafe { Typed::new(argument as *const u8) }
}

/// proto: v5.10 `(struct request_queue *, struct bio *, int rw)`, v5.11- `(struct bio *)`
#[btf_tracepoint(function = "block_getrq")]
fn block_begin_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is a typed pointer.
    lifecycle::begun(unsafe { typed(subject(ctx, &PARAMS_GETRQ)) });
    0
}

/// proto: v5.10 `(struct request_queue *, struct request *)`, v5.11- `(struct request *)`
#[btf_tracepoint(function = "block_rq_insert")]
fn block_queue_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is a typed pointer.
    lifecycle::queued(unsafe { typed(subject(ctx, &PARAMS_INSERT)) });
    0
}

/// proto: as `block_rq_insert`
#[btf_tracepoint(function = "block_rq_issue")]
fn block_issue_tp(ctx: BtfTracePointContext) -> i32 {
    // SAFETY: the argument is a typed pointer.
    lifecycle::issued(unsafe { typed(subject(ctx, &PARAMS_ISSUE)) });
    0
}

/// proto: v5.10 `(struct request *, int error, unsigned int nr_bytes)`, v5.16- `blk_status_t error`
#[btf_tracepoint(function = "block_rq_complete")]
fn block_done_tp(ctx: BtfTracePointContext) -> i32 {
    let (failed, bytes) = (ctx.arg::<u32>(1) != 0, ctx.arg::<u32>(2));
    // SAFETY: the first argument is a typed pointer.
    lifecycle::done(unsafe { Typed::new(ctx.arg(0)) }, failed, bytes);
    0
}

/// proto: as `block_rq_insert`
#[btf_tracepoint(function = "block_rq_merge")]
fn block_merge_tp(ctx: BtfTracePointContext) -> i32 {
    lifecycle::merged(Address(subject(ctx, &PARAMS_MERGE)));
    0
}

#[raw_tracepoint(tracepoint = "block_rq_merge")]
fn block_merge_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::merged(Address(subject(ctx, &PARAMS_MERGE)));
    0
}

#[raw_tracepoint(tracepoint = "block_getrq")]
fn block_begin_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::begun(Address(subject(ctx, &PARAMS_GETRQ)));
    0
}

#[raw_tracepoint(tracepoint = "block_rq_insert")]
fn block_queue_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::queued(Address(subject(ctx, &PARAMS_INSERT)));
    0
}

#[raw_tracepoint(tracepoint = "block_rq_issue")]
fn block_issue_rt(ctx: RawTracePointContext) -> i32 {
    lifecycle::issued(Address(subject(ctx, &PARAMS_ISSUE)));
    0
}

#[raw_tracepoint(tracepoint = "block_rq_complete")]
fn block_done_rt(ctx: RawTracePointContext) -> i32 {
    let (failed, bytes) = (ctx.arg::<u32>(1) != 0, ctx.arg::<u32>(2));
    lifecycle::done(Address(ctx.arg(0)), failed, bytes);
    0
}

sysprobe_ebpf::object!();
