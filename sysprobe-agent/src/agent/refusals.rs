//! How many requests were answered 503, on the port and on the local socket, and why.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::snapshot::RefusedRequests;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The engine has not started yet.
    Starting,
    /// A system call of the engine does not return.
    EngineHangs,
    /// A source of pod names can only come back with a restart, which the failed probe asks for.
    SourceDead,
    /// All places for large answers are taken, or all those of the client's address.
    NoPlace,
    /// The answer was not made in the time that the client waits.
    Late,
}

impl Refusal {
    const ALL: [Self; 5] = [Self::Starting, Self::EngineHangs, Self::SourceDead, Self::NoPlace, Self::Late];

    /// As the metric has it.
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

/// Those since the start.
#[derive(Debug, Default)]
pub(super) struct Refusals([AtomicU64; Refusal::ALL.len()]);

impl Refusals {
    pub(super) fn note(&self, refusal: Refusal) {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// By reason, those that are zero included.
    pub(super) fn samples(&self) -> Vec<RefusedRequests> {
        let sample = |refusal: Refusal| RefusedRequests {
            reason: refusal.reason().to_owned(),
            count: self.0[refusal as usize].load(Ordering::Relaxed),
        };
        Refusal::ALL.map(sample).into()
    }
}
