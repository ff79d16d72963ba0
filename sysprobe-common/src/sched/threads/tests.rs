//! States and load, compared with the letters that `/proc` shows.

use super::*;

fn thread(state: u32, exit_state: u32) -> Thread {
    Thread { state, exit_state, flags: 0, is_on_cpu: false, is_throttled: false }
}

#[test]
fn each_value_of_the_kernel_has_its_state() {
    for (state, exit_state, what, is_load) in [
        (0, 0, State::Runnable, true),
        // TASK_WAKING, TASK_NEW: on their way to a run queue.
        (0x200, 0, State::Runnable, true),
        (0x800, 0, State::Runnable, true),
        (0x1, 0, State::Interruptible, false),
        // TASK_FREEZABLE is not a state.
        (0x2001, 0, State::Interruptible, false),
        (0x2, 0, State::Uninterruptible, true),
        // TASK_KILLABLE.
        (0x102, 0, State::Uninterruptible, true),
        (0x1000, 0, State::Uninterruptible, false),
        (0x8000, 0, State::Uninterruptible, false),
        (0x402, 0, State::Idle, false),
        (0x2402, 0, State::Idle, false),
        (0x104, 0, State::Stopped, false),
        (0x108, 0, State::Traced, false),
        (0x40, 0, State::Parked, false),
        // TASK_DEAD with its exit state, and before it has left its CPU.
        (0x80, 0x20, State::Zombie, false),
        (0, 0x20, State::Zombie, false),
        // EXIT_TRACE.
        (0x80, 0x30, State::Zombie, false),
        (0x80, 0x10, State::Dead, false),
    ] {
        let thread = thread(state, exit_state);
        assert_eq!((thread.what(), thread.is_load()), (what, is_load), "{state:#x} {exit_state:#x}");
    }
}

#[test]
fn who_is_on_a_cpu_runs_unless_its_state_says_that_it_is_about_to_sleep() {
    let running = Thread { is_on_cpu: true, ..thread(0, 0) };
    assert_eq!(running.what(), State::Running);
    assert!(running.is_load());
    assert_eq!(Thread { state: 1, ..running }.what(), State::Interruptible);
}

#[test]
fn what_the_old_freezer_holds_is_no_load() {
    let held = Thread { flags: PF_FROZEN, ..thread(2, 0) };
    assert_eq!((held.what(), held.is_load()), (State::Uninterruptible, false));
    // The bit has another meaning for kernel threads.
    assert!(Thread { flags: PF_FROZEN | PF_KTHREAD, ..held }.is_load());
}

#[test]
fn what_is_throttled_is_no_load_unless_it_sleeps() {
    let throttled = Thread { is_throttled: true, ..thread(TASK_RUNNING, 0) };
    assert_eq!((throttled.what(), throttled.is_load()), (State::Runnable, false));
    assert!(Thread { state: 2, ..throttled }.is_load(), "the kernel counts its sleep");
}

#[test]
fn states_are_where_their_numbers_say() {
    assert!(State::ALL.iter().enumerate().all(|(at, state)| *state as usize == at));
}
