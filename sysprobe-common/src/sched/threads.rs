//! Threads by state, as in `/proc/PID/task/TID/stat`, and the number of them that count as load.
//!
//! The kernel's own rules: `task_state_index` and `TASK_REPORT` of include/linux/sched.h, and for the load
//! `task_contributes_to_load` (since 5.14 `sched_contributes_to_load`). The values have been the same from
//! 5.10 on; later kernels only took bits that were free before.
//! <https://github.com/torvalds/linux/blob/v6.12/include/linux/sched.h#L97>

/// The state of a thread.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On a CPU.
    Running = 0,
    /// Waiting for a CPU.
    Runnable = 1,
    Interruptible = 2,
    Uninterruptible = 3,
    Stopped = 4,
    Traced = 5,
    /// A kernel thread that waits for work.
    Idle = 6,
    Parked = 7,
    Zombie = 8,
    Dead = 9,
}

/// On a CPU or waiting for one.
pub const TASK_RUNNING: u32 = 0;
const TASK_INTERRUPTIBLE: u32 = 0x0001;
const TASK_UNINTERRUPTIBLE: u32 = 0x0002;
const TASK_STOPPED: u32 = 0x0004;
const TASK_TRACED: u32 = 0x0008;
const EXIT_DEAD: u32 = 0x0010;
const EXIT_ZOMBIE: u32 = 0x0020;
const TASK_PARKED: u32 = 0x0040;
const TASK_NOLOAD: u32 = 0x0400;
/// Waiting for a lock on a real-time kernel (5.15). Shown as uninterruptible.
const TASK_RTLOCK_WAIT: u32 = 0x1000;
/// Frozen (6.1). Shown as uninterruptible.
const TASK_FROZEN: u32 = 0x8000;
/// The same before 6.1. Since 6.15 the bit marks a kernel thread (`PF_KCOMPACTD`).
const PF_FROZEN: u32 = 0x0001_0000;
/// A kernel thread; the value has not changed since 2.6.
pub const PF_KTHREAD: u32 = 0x0020_0000;

const TASK_IDLE: u32 = TASK_UNINTERRUPTIBLE | TASK_NOLOAD;

/// The kernel's data about one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// `task_struct.__state`, `state` before 5.14.
    pub state: u32,
    pub exit_state: u32,
    pub flags: u32,
    pub is_on_cpu: bool,
    /// Runnable, but taken off its run queue until its group has a CPU quota again.
    pub is_throttled: bool,
}

impl Thread {
    /// The highest bit counts, as in the kernel.
    #[inline]
    #[must_use]
    pub const fn what(self) -> State {
        if self.state & (TASK_RTLOCK_WAIT | TASK_FROZEN) != 0 {
            return State::Uninterruptible;
        }
        if self.state & TASK_IDLE == TASK_IDLE {
            return State::Idle;
        }
        let state = self.state | self.exit_state;
        match () {
            () if state & TASK_PARKED != 0 => State::Parked,
            () if state & EXIT_ZOMBIE != 0 => State::Zombie,
            () if state & EXIT_DEAD != 0 => State::Dead,
            () if state & TASK_TRACED != 0 => State::Traced,
            () if state & TASK_STOPPED != 0 => State::Stopped,
            () if state & TASK_UNINTERRUPTIBLE != 0 => State::Uninterruptible,
            () if state & TASK_INTERRUPTIBLE != 0 => State::Interruptible,
            () if self.is_on_cpu => State::Running,
            () => State::Runnable,
        }
    }

    /// Whether the thread counts towards the load average.
    #[inline]
    #[must_use]
    pub const fn is_load(self) -> bool {
        // The v1 cgroup freezer does not freeze kernel threads.
        let was_frozen = self.flags & (PF_FROZEN | PF_KTHREAD) == PF_FROZEN;
        match self.what() {
            State::Running | State::Runnable => !self.is_throttled,
            // `what` may return this state although the kernel's bit is not set.
            State::Uninterruptible => {
                self.state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD | TASK_FROZEN) == TASK_UNINTERRUPTIBLE
                    && !was_frozen
            }
            _ => false,
        }
    }
}

impl State {
    pub const COUNT: usize = 10;
    pub const ALL: [Self; Self::COUNT] = [
        Self::Running,
        Self::Runnable,
        Self::Interruptible,
        Self::Uninterruptible,
        Self::Stopped,
        Self::Traced,
        Self::Idle,
        Self::Parked,
        Self::Zombie,
        Self::Dead,
    ];

    /// The value of the `state` label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Interruptible => "interruptible",
            Self::Uninterruptible => "uninterruptible",
            Self::Stopped => "stopped",
            Self::Traced => "traced",
            Self::Idle => "idle",
            Self::Parked => "parked",
            Self::Zombie => "zombie",
            Self::Dead => "dead",
        }
    }
}

/// The threads of a slot's cgroup at one moment. Aligned to whole words, because the agent reads words.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// By state.
    pub states: [u32; State::COUNT],
    /// How many of them count as load.
    pub load: u32,
    _pad: u32,
}

const _: () = assert!(size_of::<Threads>() == 48 && align_of::<Threads>() == 8);

impl Threads {
    pub const NONE: Self = Self { states: [0; State::COUNT], load: 0, _pad: 0 };
}

#[cfg(test)]
mod tests;
