//! Empty programs, one for each kind of hook, whose run time `cargo xtask cost` subtracts. It is that of the
//! kernel's own clock reads. The agent never loads them.
//!
//! The hooks named here are only defaults: each program is attached where the measured program is.
#![no_std]
#![no_main]

use core::ffi::c_void;

use aya_ebpf::macros::{btf_tracepoint, fentry, fexit, kprobe, kretprobe, raw_tracepoint};
use aya_ebpf::programs::{
    BtfTracePointContext, FEntryContext, FExitContext, ProbeContext, RawTracePointContext, RetProbeContext,
};

#[btf_tracepoint(function = "sched_switch")]
fn empty_tp_btf(_ctx: BtfTracePointContext) -> i32 {
    0
}

#[fentry(function = "rcu_note_context_switch")]
fn empty_fentry(_ctx: FEntryContext) -> i32 {
    0
}

#[kprobe(function = "rcu_note_context_switch")]
fn empty_kprobe(_ctx: ProbeContext) -> u32 {
    0
}

#[fexit(function = "rcu_note_context_switch")]
fn empty_fexit(_ctx: FExitContext) -> i32 {
    0
}

#[kretprobe(function = "rcu_note_context_switch")]
fn empty_kretprobe(_ctx: RetProbeContext) -> u32 {
    0
}

/// Also the baseline of programs that run on demand.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn empty_raw_tp(_ctx: RawTracePointContext) -> i32 {
    0
}

#[unsafe(link_section = "iter/task")]
#[unsafe(no_mangle)]
extern "C" fn empty_iter(_ctx: *mut c_void) -> i32 {
    0
}

sysprobe_ebpf::object!();
