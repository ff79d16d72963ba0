//! Threads by state and load averages in a snapshot.

use serde::{Deserialize, Serialize};
use sysprobe_common::sched::threads::{State, Threads};

use super::load_average;

/// The threads of one workload at one point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadsSample {
    /// In the order of `State::ALL`.
    pub by_state: [u64; State::COUNT],
    /// Number of threads that count as load: running, runnable, and most uninterruptible ones.
    pub load: u64,
}

/// The load averages of one workload over 1, 5 and 15 minutes, in the kernel's fixed point: units of 1/2048.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSample {
    pub fixed: [u64; 3],
}

impl ThreadsSample {
    pub(crate) fn add(&mut self, threads: &Threads) {
        for (sum, count) in self.by_state.iter_mut().zip(threads.states) {
            *sum += u64::from(count);
        }
        self.load += u64::from(threads.load);
    }

    #[must_use]
    pub const fn of(&self, state: State) -> u64 {
        self.by_state[state as usize]
    }
}

impl LoadSample {
    /// The averages after `periods` more periods with this load.
    #[must_use]
    pub(crate) fn after(self, load: u64, periods: u32) -> Self {
        Self { fixed: load_average::after(self.fixed, load, periods) }
    }

    /// By the values of the `window` label.
    #[must_use]
    pub fn each(&self) -> [(&'static str, f64); 3] {
        let [short, middle, long] = self.fixed.map(|fixed| fixed as f64 / load_average::ONE as f64);
        [("1m", short), ("5m", middle), ("15m", long)]
    }
}
