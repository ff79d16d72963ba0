//! Pauses domains that would cost the node too much. The domain itself decides when; this module puts it into
//! the domain's state, where every reader sees it.

use std::time::Instant;

use tracing::{info, warn};

use super::bpf_domains::BpfDomains;
use crate::domain::vfs::Turn;
use crate::snapshot::{DomainState, SHED};

#[derive(Default)]
pub(super) struct Shedding {
    /// The domain's state before the pause.
    vfs: Option<DomainState>,
}

impl Shedding {
    pub(super) fn update(
        &mut self,
        bpf_domains: &mut BpfDomains,
        per_second: u64,
        domains: &mut [DomainState],
        now: Instant,
    ) {
        let Some(vfs) = bpf_domains.vfs() else { return };
        let turn = vfs.keep_to_limit(now);
        let Some(state) = domains.iter_mut().find(|state| state.name == "vfs") else { return };
        match turn {
            Ok(None) => {}
            Ok(Some(Turn::Off)) => self.shed(state, per_second),
            Ok(Some(Turn::On)) => self.resume(state),
            Err(error) => {
                warn!(domain = state.name, %error, "Domain could not be resumed.");
                (state.up, state.reason) = (false, error.to_string());
            }
        }
    }

    fn shed(&mut self, state: &mut DomainState, per_second: u64) {
        let reason = format!(
            "{SHED}there are more than {per_second} system calls a second (vfs_calls_per_second), each of \
             which runs BPF programs"
        );
        info!(domain = state.name, reason, "Domain is paused.");
        let paused = DomainState { up: false, reason, ..state.clone() };
        let before = std::mem::replace(state, paused);
        self.vfs.get_or_insert(before);
    }

    fn resume(&mut self, state: &mut DomainState) {
        if let Some(before) = self.vfs.take() {
            info!(domain = state.name, "Domain is resumed.");
            *state = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_that_is_shed_is_off_with_its_reason_and_comes_back_as_it_was() {
        let before = DomainState {
            name: "vfs".into(),
            up: true,
            mode: "tp_btf".into(),
            reason: "so".into(),
            unseen: vec!["vfs_read".into()],
        };
        let (mut shedding, mut state) = (Shedding::default(), before.clone());
        for _ in 0..2 {
            shedding.shed(&mut state, 1000);
            assert!(!state.up && state.is_shed() && state.reason.contains("1000 system calls"), "{state:?}");
            shedding.resume(&mut state);
            assert_eq!(state, before);
        }
    }
}
