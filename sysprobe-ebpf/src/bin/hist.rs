//! For the agent's tests only: runs the bucket search in the kernel over values that a test puts into a map.
//! The test compares the results with the same function in user space (`sysprobe-agent/tests/hist.rs`).
#![no_std]
#![no_main]

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::{btf_map, raw_tracepoint};
use aya_ebpf::programs::RawTracePointContext;
use sysprobe_common::hist;

/// Values per run. The verifier walks every iteration of the loop (`bpf_loop` needs 5.17), and in each all
/// paths through the search. This many take half of its limit of a million instructions (509,624 on 6.18).
const VALUES: u32 = 512;

#[btf_map]
static HIST_VALUES: Array<u64, { VALUES as usize }, { BPF_F_MMAPABLE as usize }> = Array::new();
/// The bucket of the value with the same number.
#[btf_map]
static HIST_BUCKETS: Array<u64, { VALUES as usize }, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Never attached: a test runs it (`BPF_PROG_TEST_RUN`). Returns 1 if a map is smaller than declared.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn hist_buckets(_ctx: RawTracePointContext) -> i32 {
    for index in 0..VALUES {
        let (Some(value), Some(bucket)) = (HIST_VALUES.get_ptr(index), HIST_BUCKETS.get_ptr_mut(index))
        else {
            return 1;
        };
        // SAFETY: both point into the maps' memory, which stays while the program runs.
        unsafe { *bucket = hist::bucket_of(*value) as u64 };
    }
    0
}

sysprobe_ebpf::object!();
