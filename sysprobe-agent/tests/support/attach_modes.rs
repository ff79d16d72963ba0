//! Agents with different attach modes that measure the same load. An attach mode that is unavailable on this
//! kernel is reported with the agent's reason. The test accepts that only if the kernel's limitation is known
//! independently of the agent.

use std::fs;
use std::path::Path;
use std::thread;

use sysprobe_agent::probe::{AttachMode, MapSpec, program_set};

use super::agent::{self, Agent, Options};
use super::figure;

const MODES: [AttachMode; 4] = [AttachMode::TpBtf, AttachMode::Fentry, AttachMode::Kprobe, AttachMode::RawTp];

/// An agent with a fixed attach mode.
pub(crate) struct Watcher {
    pub(crate) mode: AttachMode,
    pub(crate) agent: Agent,
}

impl Watcher {
    fn start(domain: &str, mode: AttachMode) -> Self {
        let arguments = ["--attach", mode.name()];
        // A slow machine may need longer than the default to read what an ended load has counted.
        let config = format!("grace_seconds = 3600\n{}", only(domain));
        Self {
            mode,
            agent: Agent::with(Options { config: &config, arguments: &arguments, ..Options::default() }),
        }
    }

    /// Whether the domain is up in this attach mode; if it is off, there must be a known reason.
    fn has(&self, domain: &str) -> bool {
        let name = self.mode.name();
        let snapshot = self.agent.snapshot();
        let state = snapshot.domains.iter().find(|state| state.name == domain).expect("a domain");
        if !state.up {
            figure(&format!("{domain} by {name}: not on this kernel: {}", state.reason));
            assert!(is_missing(self.mode, domain, &state.reason), "{name} should work: {}", state.reason);
        }
        assert!(!state.up || state.mode == name, "told to use {name}, uses {}", state.mode);
        let log = self.agent.log();
        assert!(!log.contains("unfolded"), "the verifier refuses folded programs: {log}");
        assert!(!log.contains("without casts"), "the kernel refuses casts: {log}");
        state.up
    }
}

/// Turns off all other domains with programs: to load them takes an emulated machine half a minute. `cpu`
/// stays on, because an agent needs a domain that exports something if the tested one is off.
fn only(domain: &str) -> String {
    let is_needed = |other: &str| match domain {
        // The scheduler's programs provide the reader's states.
        "rxpath" => other == "sched",
        // The event of a cgroup's end has its last OOM kills.
        "cgroup" => other == "memory",
        _ => false,
    };
    agent::domains(|other| other == domain || other == "cpu" || is_needed(other))
}

/// One agent for each attach mode that the domain and this kernel have, all at the same time.
pub(crate) fn watchers(domain: &str) -> Vec<Watcher> {
    let modes = MODES.into_iter().filter(|mode| program_set(domain, *mode).is_some());
    let mut watchers: Vec<_> = thread::scope(|scope| {
        let starts: Vec<_> = modes.map(|mode| scope.spawn(move || Watcher::start(domain, mode))).collect();
        starts.into_iter().map(|start| start.join().expect("the agent starts")).collect()
    });
    watchers.retain(|watcher| watcher.has(domain));
    assert!(!watchers.is_empty(), "no attach mode works");
    watchers
}

/// Whether this kernel cannot support the attach mode. A refusal by the verifier does not count as missing
/// support: that is a bug of ours.
fn is_missing(mode: AttachMode, domain: &str, reason: &str) -> bool {
    /// The first kernel in which programs of these kinds may use task storage.
    const TASK_STORAGE: (u32, u32) = (5, 13);
    /// The first kernel with tracepoints for a socket's sends and receives.
    const SOCKET_CALLS: (u32, u32) = (6, 3);
    /// The first kernel with ftrace direct calls on arm64; x86-64 has them on all supported kernels.
    const DIRECT_CALLS: (u32, u32) = (6, 4);
    let wants_storage = program_set(domain, mode).is_some_and(|set| set.maps().any(MapSpec::is_storage));
    let has_no_storage = wants_storage && kernel() < TASK_STORAGE;
    let has_no_calls = domain == "net" && kernel() < SOCKET_CALLS;
    let has_no_direct_calls = cfg!(target_arch = "aarch64") && kernel() < DIRECT_CALLS;
    match mode {
        AttachMode::TpBtf => has_no_storage || has_no_calls,
        AttachMode::Fentry => {
            let has_no_hooks = has_no_direct_calls || !has_kprobes();
            has_no_storage || (!reason.contains("verifier") && has_no_hooks)
        }
        AttachMode::Kprobe => !has_kprobes(),
        AttachMode::RawTp => has_no_calls,
    }
}

pub(crate) fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse().ok());
    (numbers.next().expect("a version"), numbers.next().expect("a version"))
}

/// Whether the kernel has kprobes. Without them it cannot patch function entries, which `fentry` needs too.
fn has_kprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe").exists()
}
