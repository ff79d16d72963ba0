//! Scrapes the agent all the time, as Prometheus would, and remembers what only the whole course of scrapes
//! can show: when a series was there first, whether a counter has ever become smaller, the last value of what
//! has gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::samples::{Sample, Workload, by_workload};
use super::{agent, processes, truth};

/// What has been seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) scrapes: usize,
    /// Scrapes that were not answered.
    pub(super) failures: Vec<String>,
    /// When a workload had its first series, in seconds since boot.
    pub(super) first: BTreeMap<Workload, f64>,
    /// The last time on CPU of each workload, in seconds.
    pub(super) on_cpu: BTreeMap<Workload, f64>,
    pub(super) backwards: Vec<String>,
    last: BTreeMap<String, f64>,
}

/// Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Scraper {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scraper {
    pub(super) fn start(pause: Duration) -> Self {
        let (seen, stop) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let thread = thread::spawn({
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let scrape = agent::scrape();
                    let now = processes::since_boot();
                    seen.lock().unwrap_or_else(PoisonError::into_inner).add(scrape, now);
                    thread::sleep(pause);
                }
            }
        });
        Self { seen, stop, thread: Some(thread) }
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say at its end.
            drop(thread.join());
        }
    }
}

impl Seen {
    fn add(&mut self, scrape: anyhow::Result<Vec<Sample>>, now: f64) {
        self.scrapes += 1;
        let samples = match scrape {
            Ok(samples) => samples,
            Err(error) => return self.failures.push(format!("{error:#}")),
        };
        self.backwards.extend(truth::backwards(&self.last, &samples));
        for (workload, on_cpu) in by_workload(&samples, truth::ON_CPU) {
            self.first.entry(workload.clone()).or_insert(now);
            self.on_cpu.insert(workload, on_cpu);
        }
        // A culprit that lost its name begins at zero when it is named again.
        self.last.retain(|series, _| !series.starts_with(truth::BLAME));
        self.last.extend(samples.iter().map(|sample| (sample.series(), sample.value)));
    }

    /// What is wrong with the course of all scrapes.
    pub(super) fn faults(&self) -> Vec<String> {
        self.failures.iter().chain(&self.backwards).cloned().collect()
    }
}
