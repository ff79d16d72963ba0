//! Counts requests answered with 503, on the port and on the local socket, by reason.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::snapshot::RefusedRequests;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The engine has not started yet.
    Starting,
    /// A system call of the engine does not return.
    EngineHangs,
    /// A source of pod names can only recover by a restart, which the failed probe causes.
    SourceDead,
    /// All places for large answers are taken, or all that the client's address may have.
    NoPlace,
    /// The answer was not ready before the client's timeout.
    Late,
}

impl Refusal {
    const ALL: [Self; 5] = [Self::Starting, Self::EngineHangs, Self::SourceDead, Self::NoPlace, Self::Late];

    /// The label value of the metric.
    const fn reason(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::EngineHangs => "engine_hangs",
            Self::SourceDead => "source_dead",
            Self::NoPlace => "no_place",
            Self::Late => "late",
        }
    }
}

/// The refusals since the start.
#[derive(Debug, Default)]
pub(super) struct Refusals([AtomicU64; Refusal::ALL.len()]);

impl Refusals {
    pub(super) fn note(&self, refusal: Refusal) {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// By reason, including those that are zero.
    pub(super) fn samples(&self) -> Vec<RefusedRequests> {
        let sample = |refusal: Refusal| RefusedRequests {
            reason: refusal.reason().to_owned(),
            count: self.0[refusal as usize].load(Ordering::Relaxed),
        };
        Refusal::ALL.map(sample).into()
    }
}
