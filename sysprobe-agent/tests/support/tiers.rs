//! Agents that hook the kernel differently and watch the same load. A tier that this kernel does not have is
//! said to be missing, with the agent's reason, and only a lack that shows without the agent as well is
//! accepted.

use std::fs;
use std::path::Path;
use std::thread;

use sysprobe_agent::probe::{Tier, tier_set};

use super::agent::{Agent, Options};
use super::figure;

const TIERS: [Tier; 4] = [Tier::TpBtf, Tier::Fentry, Tier::Kprobe, Tier::RawTp];

/// An agent that was told to use this tier.
pub(crate) struct Watcher {
    pub(crate) tier: Tier,
    pub(crate) agent: Agent,
}

impl Watcher {
    fn start(domain: &str, tier: Tier) -> Self {
        let arguments = ["--attach", tier.name()];
        let config = only(domain);
        Self {
            tier,
            agent: Agent::with(Options { config: &config, arguments: &arguments, ..Options::default() }),
        }
    }

    /// Whether the domain is up through the tier; it may be off only for a reason.
    fn has(&self, domain: &str) -> bool {
        let name = self.tier.name();
        let snapshot = self.agent.snapshot();
        let state = snapshot.domains.iter().find(|state| state.name == domain).expect("a domain");
        if !state.up {
            figure(&format!("{domain} by {name}: not on this kernel: {}", state.reason));
            assert!(is_missing(self.tier, domain, &state.reason), "{name} should work: {}", state.reason);
        }
        assert!(!state.up || state.hook == name, "told to use {name}, uses {}", state.hook);
        state.up
    }
}

/// All other domains with programs are off: to load them all takes an emulated machine half a minute. An
/// agent whose domain is off has to have one that exports something.
fn only(domain: &str) -> String {
    // What the reader did is told by the scheduler's programs.
    let is_on = |other| other == domain || other == "cpu" || (domain == "rxpath" && other == "sched");
    let switches = ["sched", "vfs", "block", "tcp", "net", "rxpath", "reclaim", "cpu", "memory", "pressure"]
        .map(|other| format!("{other} = {}", is_on(other)));
    format!("[domains]\n{}", switches.join("\n"))
}

/// One agent per tier that the domain and this kernel have, all at the same time.
pub(crate) fn watchers(domain: &str) -> Vec<Watcher> {
    let tiers = TIERS.into_iter().filter(|tier| tier_set(domain, *tier).is_some());
    let mut watchers: Vec<_> = thread::scope(|scope| {
        let starts: Vec<_> = tiers.map(|tier| scope.spawn(move || Watcher::start(domain, tier))).collect();
        starts.into_iter().map(|start| start.join().expect("the agent starts")).collect()
    });
    watchers.retain(|watcher| watcher.has(domain));
    assert!(!watchers.is_empty(), "no tier works");
    watchers
}

/// Whether the kernel lacks what the tier needs, by its own word. What the verifier dislikes is never a lack:
/// that is for us to mend.
fn is_missing(tier: Tier, domain: &str, reason: &str) -> bool {
    /// Before it, programs of this kind may not use task storage.
    const TASK_STORAGE: (u32, u32) = (5, 13);
    /// Tracepoints of what a socket sends and receives.
    const SOCKET_CALLS: (u32, u32) = (6, 3);
    /// Direct calls of ftrace on arm64; x86-64 has had them for longer than we look back.
    const DIRECT_CALLS: (u32, u32) = (6, 4);
    let has_no_storage = !matches!(domain, "cgroup" | "block" | "reclaim") && kernel() < TASK_STORAGE;
    let has_no_calls = domain == "net" && kernel() < SOCKET_CALLS;
    let has_no_direct_calls = cfg!(target_arch = "aarch64") && kernel() < DIRECT_CALLS;
    match tier {
        Tier::TpBtf => has_no_storage || has_no_calls,
        Tier::Fentry => {
            let has_no_hooks = has_no_direct_calls || !has_kprobes();
            has_no_storage || (!reason.contains("verifier") && has_no_hooks)
        }
        Tier::Kprobe => !has_kprobes(),
        Tier::RawTp => has_no_calls,
    }
}

pub(crate) fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse().ok());
    (numbers.next().expect("a version"), numbers.next().expect("a version"))
}

/// A kernel that has them can change the entries of its functions, which `fentry` needs too.
fn has_kprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe").exists()
}

/// The tiers that hook functions; the others see system calls.
pub(crate) const fn sees_functions(tier: Tier) -> bool {
    matches!(tier, Tier::Fentry | Tier::Kprobe)
}
