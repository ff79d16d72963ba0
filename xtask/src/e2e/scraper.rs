//! Scrapes the agent all the time, as Prometheus would, and records what only the sequence of scrapes shows:
//! when a series first appeared, whether a counter ever went backwards, and the last value of a series that
//! has gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::samples::{Sample, Workload, by_workload};
use super::{agent, processes, truth};

/// The observations so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) scrapes: usize,
    /// Scrapes that failed.
    pub(super) failures: Vec<String>,
    /// When each workload's first series appeared, in seconds since boot.
    pub(super) first: BTreeMap<Workload, f64>,
    /// The last on-CPU time of each workload, in seconds.
    pub(super) on_cpu: BTreeMap<Workload, f64>,
    pub(super) backwards: Vec<String>,
    last: BTreeMap<String, f64>,
}

/// The running scraper; stops when it is dropped.
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
            // The thread has no result to report.
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
        // A culprit's counter restarts at zero when the culprit lost its name and is named again.
        self.last.retain(|series, _| !series.starts_with(truth::BLAME));
        self.last.extend(samples.iter().map(|sample| (sample.series(), sample.value)));
    }

    /// Faults in the sequence of all scrapes.
    pub(super) fn faults(&self) -> Vec<String> {
        self.failures.iter().chain(&self.backwards).cloned().collect()
    }
}
