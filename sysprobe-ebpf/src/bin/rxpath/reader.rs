//! When the task that reads was told, and when it had a CPU: from what the `sched` domain remembers of it.

use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_get_smp_processor_id};
use sysprobe_common::sched::slices::{SLICES, Slice, Slices, StoredTask};
use sysprobe_common::sched::{Timeline, flag};
use sysprobe_ebpf::kernel::{Object, Typed};
use sysprobe_ebpf::settings;
use sysprobe_ebpf::shared;

settings!(
    /// 1 if the other domain remembers.
    CFG_SLICES,
    OFF_TASK_LAST_ARRIVAL,
    OFF_TASK_RUN_DELAY,
    OFF_TASK_RUN_COUNT,
);

/// When the running task became runnable and when it got a CPU, the first time after a moment. One that had a CPU then needed neither,
/// and of one that has had too many since nobody knows: it was busy with other things.
#[inline(always)]
pub(crate) fn since(ready: u64) -> (u64, u64) {
    if CFG_SLICES.load() == 0 {
        return (ready, ready);
    }
    // SAFETY: the helper returns a typed pointer to the current task.
    let task = unsafe { Typed::new(bpf_get_current_task_btf().cast_const().cast()) };
    match shared::sched_task(task).and_then(|stored| first_after(task, stored, ready)) {
        Some(slice) if slice.arrived - slice.waited > ready => (slice.arrived - slice.waited, slice.arrived),
        Some(slice) => (ready, slice.arrived),
        None => (ready, ready),
    }
}

#[inline(always)]
fn first_after(task: Typed, stored: &StoredTask, ready: u64) -> Option<Slice> {
    let mut first = None;
    if let Some(slice) = current(task, stored) {
        if slice.arrived <= ready {
            return None;
        }
        first = Some(slice);
    }
    for back in 0..SLICES {
        let slice = nth(&stored.slices, back);
        if slice.arrived == 0 {
            return first;
        }
        if slice.arrived <= ready {
            let had_cpu = slice.left == 0 || slice.left > ready;
            return first.filter(|_| !had_cpu);
        }
        first = Some(slice);
    }
    None
}

/// The slice that the task is in, if it was not noted yet.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "as it is remembered")]
fn current(task: Typed, stored: &StoredTask) -> Option<Slice> {
    let known = &stored.task;
    if task.u64_or_zero(&OFF_TASK_RUN_COUNT) as u32 == known.arrivals {
        return None;
    }
    // SAFETY: the helper only returns a number.
    let line: &Timeline = shared::sched_timeline(unsafe { bpf_get_smp_processor_id() })?;
    let pieces = if known.flags & flag::PIECES == 0 { 0 } else { known.waited };
    let waited = task.u64_or_zero(&OFF_TASK_RUN_DELAY).wrapping_sub(known.run_delay) + pieces;
    let arrived = task.u64_or_zero(&OFF_TASK_LAST_ARRIVAL).wrapping_add(line.clock_offset);
    Some(Slice { arrived, waited, left: 0 })
}

/// The last but so many.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "what counts are the lowest bits")]
fn nth(slices: &Slices, back: usize) -> Slice {
    let place = slices.last.wrapping_sub(back as u64) as usize & (SLICES - 1);
    // SAFETY: the place is within the ring.
    unsafe { *slices.ring.get_unchecked(place) }
}
