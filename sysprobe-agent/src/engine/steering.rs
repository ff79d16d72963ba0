//! Whether packets are steered to other CPUs (RPS). The plan checks it at startup, and only then are programs
//! attached that see how long packets wait for the other CPU. This module notices if steering is switched on
//! later.

use std::time::{Duration, Instant};

use tracing::warn;

use crate::host;
use crate::snapshot::DomainState;

/// Each check reads one file per receive queue.
const LOOK_EVERY: Duration = Duration::from_secs(600);
const UNSEEN: &str = "RPS was enabled after the agent started: until a restart of the agent, the stages \
                      leave out the time that packets wait on the target CPU";

pub(super) struct Steering {
    /// Whether packets are already known to be steered.
    is_known: bool,
    looked: Instant,
}

impl Steering {
    pub(super) fn new(is_known: bool) -> Self {
        Self { is_known, looked: Instant::now() }
    }

    /// Reports it in the domain's state, which every reader of the numbers sees.
    pub(super) fn update(&mut self, domains: &mut [DomainState], now: Instant) {
        self.update_from(domains, now, host::steers_packets);
    }

    fn update_from(&mut self, domains: &mut [DomainState], now: Instant, steers: impl Fn() -> bool) {
        if self.is_known || now.duration_since(self.looked) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        let Some(state) = domains.iter_mut().find(|state| state.name == "rxpath" && state.up) else { return };
        if steers() {
            self.is_known = true;
            warn!(domain = state.name, "{UNSEEN}.");
            let before = if state.reason.is_empty() { "" } else { "; " };
            state.reason = format!("{}{before}{UNSEEN}", state.reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(up: bool) -> [DomainState; 1] {
        let (name, mode, reason) = ("rxpath".into(), "tp_btf".into(), "so".into());
        [DomainState { name, up, mode, reason, ..DomainState::default() }]
    }

    #[test]
    fn steering_that_is_switched_on_later_is_said_once() {
        let (mut steering, mut states) = (Steering::new(false), domains(true));
        let mut now = Instant::now();
        steering.update_from(&mut states, now, || true);
        assert_eq!(states[0].reason, "so", "not looked at yet");
        for is_on in [false, true, true] {
            now += LOOK_EVERY;
            steering.update_from(&mut states, now, || is_on);
        }
        assert_eq!(states[0].reason, format!("so; {UNSEEN}"));
    }

    #[test]
    fn steering_is_said_only_where_it_makes_a_difference() {
        let now = Instant::now() + 2 * LOOK_EVERY;
        for (is_known, up) in [(true, true), (false, false)] {
            let mut states = domains(up);
            Steering::new(is_known).update_from(&mut states, now, || true);
            assert_eq!(states[0].reason, "so");
        }
    }
}
