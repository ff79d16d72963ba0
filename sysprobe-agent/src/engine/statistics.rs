//! The kernel's BPF program statistics: always on if configured, or on for as long as a reader asks for them.
//! They cost two clock reads for each run of every BPF program on the machine.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::bpf;
use crate::snapshot::Measuring;

/// The kernel measures while the file descriptor is open.
pub(super) struct Statistics {
    always: bool,
    until: Option<Instant>,
    open: Option<OwnedFd>,
    refused: Option<String>,
}

impl Statistics {
    pub(super) fn new(always: bool) -> Self {
        let mut statistics = Self { always, until: None, open: None, refused: None };
        if always {
            statistics.switch_on();
        }
        statistics
    }

    /// Enables the statistics for a while.
    pub(super) fn ask(&mut self, lease: Duration, now: Instant) {
        self.until = self.until.max(Some(now + lease));
        if self.open.is_none() {
            self.switch_on();
        }
    }

    /// Disables the statistics when the last lease has ended.
    pub(super) fn update(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            if !self.always {
                (self.open, self.refused) = (None, None);
            }
        }
    }

    pub(super) fn state(&self) -> Measuring {
        match (&self.open, &self.refused) {
            (Some(_), _) => Measuring::On,
            (None, Some(reason)) => Measuring::Refused(reason.clone()),
            (None, None) => Measuring::Off,
        }
    }

    fn switch_on(&mut self) {
        match bpf::measure_programs() {
            Ok(open) => (self.open, self.refused) = (Some(open), None),
            Err(error) => {
                // A reader may ask each second: the warning must not repeat as often.
                if self.refused.is_none() {
                    warn!(%error, "BPF program statistics could not be enabled.");
                }
                self.refused = Some(error.io_error.to_string());
            }
        }
    }
}
