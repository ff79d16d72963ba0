//! When the reading task was woken, and how long it waited for a CPU, from the records of the `sched` domain.

use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use sysprobe_common::rxpath::slow::Slow;
use sysprobe_common::sched::Timeline;
use sysprobe_common::sched::slices::{SLICES, Slice, Slices, StoredTask};
use sysprobe_common::sched::timeline::RUN_INTERVALS;
use sysprobe_ebpf::globals;
use sysprobe_ebpf::kernel::{Object, Typed};
use sysprobe_ebpf::shared;

globals!(
    /// 1 if `sched` keeps the slices of tasks.
    CFG_SLICES,
    OFF_TASK_LAST_ARRIVAL,
    OFF_TASK_RUN_DELAY,
    OFF_TASK_RUN_COUNT,
);

/// When the current task became runnable after `ready`, and how long it has waited for a CPU since, over all
/// waits. A task that had a CPU at `ready` was runnable all the time. If the task has had more slices since
/// than are kept, it was busy with other things, and `ready` counts as its wakeup.
#[inline(always)]
pub(crate) fn since(ready: u64) -> (u64, u64) {
    if CFG_SLICES.load() == 0 {
        return (ready, 0);
    }
    let task = Typed::current();
    let Some(stored) = shared::sched_task(task) else { return (ready, 0) };
    let mut waits = ReaderWaits { ready, woken: ready, waited: 0 };
    waits.go_back(task, stored);
    (waits.woken, waits.waited)
}

/// Adds the last run intervals of the CPU to a record, to explain why the request was slow.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are not so many")]
pub(crate) fn tell_of_its_cpu(slow: &mut Slow) {
    if CFG_SLICES.load() == 0 {
        return;
    }
    let Some(line) = shared::sched_timeline(slow.cpu) else { return };
    let task = Typed::current();
    let Some(stored) = shared::sched_task(task) else { return };
    // For a slice that is already recorded, the part of its wait on this CPU is not known.
    let Some((slice, here)) = current(task, stored) else { return };
    (slow.waited_from, slow.waited_to) = (slice.arrived.wrapping_sub(here), slice.arrived);
    slow.clock_offset = line.clock_offset;
    for (back, interval) in slow.run_intervals.iter_mut().enumerate() {
        let place = line.last.wrapping_sub(back as u32) as usize & (RUN_INTERVALS - 1);
        // SAFETY: the place is within the timeline.
        *interval = unsafe { *line.run_intervals.get_unchecked(place) };
    }
}

/// The reader's waits since the data became ready.
struct ReaderWaits {
    ready: u64,
    woken: u64,
    waited: u64,
}

impl ReaderWaits {
    #[inline(always)]
    fn go_back(&mut self, task: Typed, stored: &StoredTask) {
        if let Some((slice, _)) = current(task, stored)
            && !self.goes_on_before(&slice)
        {
            return;
        }
        for back in 0..SLICES {
            let slice = nth(&stored.slices, back);
            // The entry is empty: the task has not had more slices.
            if slice.arrived == 0 || !self.goes_on_before(&slice) {
                return;
            }
        }
        self.woken = self.ready;
    }

    /// Adds a slice, and returns whether the one before it matters.
    #[inline(always)]
    fn goes_on_before(&mut self, slice: &Slice) -> bool {
        if slice.arrived <= self.ready {
            if slice.left == 0 || slice.left > self.ready {
                self.woken = self.ready;
            }
            return false;
        }
        let runnable = slice.arrived.saturating_sub(slice.waited);
        self.woken = if runnable > self.ready { runnable } else { self.ready };
        self.waited += slice.arrived - self.woken;
        true
    }
}

/// The current slice, if it is not recorded yet, and the part of its wait on this CPU.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "as it is remembered")]
fn current(task: Typed, stored: &StoredTask) -> Option<(Slice, u64)> {
    let known = &stored.task;
    if task.u64_or_zero(&OFF_TASK_RUN_COUNT) as u32 == known.arrivals {
        return None;
    }
    // SAFETY: the helper only returns a number.
    let line: &Timeline = shared::sched_timeline(unsafe { bpf_get_smp_processor_id() })?;
    let here = task.u64_or_zero(&OFF_TASK_RUN_DELAY).wrapping_sub(known.run_delay);
    let here = if known.is_wait_known() { here } else { 0 };
    let waited = here + known.waited_elsewhere();
    let arrived = task.u64_or_zero(&OFF_TASK_LAST_ARRIVAL).wrapping_add(line.clock_offset);
    Some((Slice { arrived, waited, left: 0 }, here))
}

/// The slice that is `back` slices before the last one.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "what counts are the lowest bits")]
fn nth(slices: &Slices, back: usize) -> Slice {
    let place = slices.last.wrapping_sub(back as u64) as usize & (SLICES - 1);
    // SAFETY: the place is within the ring.
    unsafe { *slices.ring.get_unchecked(place) }
}
