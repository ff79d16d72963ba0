//! For the agent's tests only: counts how often certain processes leave a CPU. A test compares this with the
//! kernel's own counts to find out whether the kernel runs programs on top of any process
//! (`sysprobe-agent/tests/support/hidden.rs`).
#![no_std]
#![no_main]

use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use aya_ebpf::macros::{btf_map, raw_tracepoint};
use aya_ebpf::programs::RawTracePointContext;
use sysprobe_ebpf::atomic::add_u64;

/// By process. The test inserts the processes that it asks about.
#[btf_map]
static SWITCHES: HashMap<u32, u64, 2> = HashMap::new();

/// The current task is the one that leaves the CPU.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn count_switches(_ctx: RawTracePointContext) -> i32 {
    let process = (bpf_get_current_pid_tgid() >> 32) as u32;
    if let Some(count) = SWITCHES.get_ptr_mut(process) {
        // SAFETY: no entry is ever removed.
        add_u64(unsafe { &mut *count }, 1);
    }
    0
}

sysprobe_ebpf::object!();
