//! Pressure of cgroups, compared with the kernel's own files. If the CPU controller is on cgroup v1, the
//! agent is given the v2 hierarchy, where the kernel tracks pressure nevertheless.

mod support;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use support::agent::{Agent, Options};
use support::cgroup::is_v1;
use support::totals::workload;
use support::{at_rest, figure, left_out, until};
use sysprobe_agent::cgroup::mounts::Mounts;
use sysprobe_agent::snapshot::{DomainState, PressureSample, StallSample};

const FILES: [&str; 3] = ["cpu.pressure", "memory.pressure", "io.pressure"];

/// The v2 mount point, unless the kernel tracks no pressure there.
fn v2() -> Option<PathBuf> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let Some(v2) = Mounts::parse(&mountinfo).v2 else {
        left_out("pressure", "cgroup v2 is not mounted");
        return None;
    };
    match fs::read_to_string("/proc/pressure/cpu") {
        Ok(_) => Some(v2.point),
        Err(error) => {
            left_out("pressure", &format!("/proc/pressure/cpu: {error}"));
            None
        }
    }
}

fn agent_of(root: &Path) -> Agent {
    let root = root.to_str().expect("UTF-8");
    Agent::with(Options { arguments: &["--cgroup-root", root], ..Options::default() })
}

fn state(agent: &Agent) -> DomainState {
    let domains = agent.snapshot().domains;
    domains.into_iter().find(|state| state.name == "pressure").expect("a domain")
}

/// A v2 cgroup whose processes are killed when it is dropped.
struct Group {
    directory: PathBuf,
    children: Vec<process::Child>,
}

impl Group {
    fn new(root: &Path, name: &str) -> Self {
        let directory = root.join(format!("sysprobe-test-{}-{name}", process::id()));
        fs::create_dir(&directory).expect("a cgroup");
        Self { directory, children: Vec::new() }
    }

    fn name(&self) -> String {
        format!("/{}", self.directory.file_name().expect("a name").to_str().expect("UTF-8"))
    }

    /// Starts processes that all want the same CPU.
    fn crowd(&mut self, processes: usize) {
        for _ in 0..processes {
            let mut command = process::Command::new("taskset");
            command.args(["-c", "0", "sh", "-c", "echo 0 > \"$0\" && while :; do :; done"]);
            command.arg(self.directory.join("cgroup.procs"));
            self.children.push(command.spawn().expect("sh can be started"));
        }
    }

    fn disperse(&mut self) {
        for mut child in self.children.drain(..) {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// `None` if the kernel does not provide the line.
    fn total(&self, file: &str, line: &str) -> Option<u64> {
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        let line = text.lines().find(|has| has.starts_with(line))?;
        let (_, total) = line.rsplit_once("total=").expect("a total");
        Some(total.parse::<u64>().expect("microseconds") * 1000)
    }

    fn sample(&self) -> PressureSample {
        let [cpu, memory, io] = FILES.map(|file| StallSample {
            waiting_ns: self.total(file, "some"),
            stalled_ns: self.total(file, "full"),
        });
        PressureSample { cpu, memory, io }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.disperse();
        until("the cgroup can be removed", || match fs::remove_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => None,
            _ => Some(()),
        });
    }
}

/// The kernel's numbers and the agent's, once both stay the same: each read of the file updates the averages.
fn while_quiet(agent: &Agent, group: &Group) -> (PressureSample, PressureSample) {
    at_rest("the files and the agent's numbers stay the same", || {
        let ours = workload(&agent.snapshot(), &group.name())?.pressure.clone()?;
        Some((group.sample(), ours))
    })
}

#[test]
fn waits_are_those_of_the_files() {
    let Some(root) = v2() else { return };
    let agent = agent_of(&root);
    assert!(state(&agent).up, "{:?}", state(&agent));
    let mut group = Group::new(&root, "crowd");
    for round in 1..=2 {
        let start = group.sample().cpu.waiting_ns.expect("kept");
        group.crowd(3);
        until("they wait for one another", || {
            (group.sample().cpu.waiting_ns? > start + 300_000_000).then_some(())
        });
        group.disperse();
        let (files, ours) = while_quiet(&agent, &group);
        figure(&format!("round {round}: {files:?}"));
        assert_eq!(ours, files);
    }
    let labels = [("container", &*group.name())];
    let waited = agent.scrape().get("sysprobe_pressure_cpu_waiting_seconds_total", &labels);
    assert!(waited >= 0.6, "{waited}");
    // The kernel adds the last waits up to two seconds later.
    let before = group.sample().cpu.waiting_ns.expect("kept");
    let later = agent_of(&root);
    let (files, ours) = while_quiet(&later, &group);
    let since = files.cpu.waiting_ns.expect("kept") - before;
    assert!(
        ours.cpu.waiting_ns.expect("kept") <= since,
        "counters begin at 0 when the agent starts: {ours:?}"
    );
    let (name, before) = (group.name(), while_quiet(&agent, &group).1);
    drop(group);
    let snapshot = agent.snapshot();
    let gone = workload(&snapshot, &name).and_then(|workload| workload.pressure.clone());
    assert_eq!(gone, Some(before), "nothing is taken away in its grace");
}

#[test]
fn a_group_whose_pressure_is_turned_off_has_no_series() {
    let Some(root) = v2() else { return };
    let group = Group::new(&root, "off");
    if !group.directory.join("cgroup.pressure").exists() {
        left_out("turning pressure off", "this kernel has no cgroup.pressure (Linux 6.1)");
        return;
    }
    fs::write(group.directory.join("cgroup.pressure"), "0").expect("written");
    let agent = agent_of(&root);
    let snapshot = agent.snapshot();
    let row = workload(&snapshot, &group.name());
    assert!(row.is_none_or(|row| row.pressure.is_none()), "{row:?}");
    let unreadable = snapshot.agent.lost_updates.iter().find(|lost| lost.domain == "pressure");
    assert_eq!(unreadable.map(|lost| lost.count), Some(0));
}

#[test]
fn where_the_key_is_v1_the_domain_is_off_and_says_why() {
    if !is_v1() {
        left_out("pressure on v1", "this host has the CPU controller on v2");
        return;
    }
    let agent = Agent::start();
    let state = state(&agent);
    assert!(!state.up && state.reason.contains("cgroup v1 has no pressure"), "{state:?}");
    assert!(agent.snapshot().workloads.iter().all(|row| row.pressure.is_none()));
}
