//! Programs that a cgroup's tasks start, measured by every attach mode of this kernel at the same time.

mod support;

use std::process::Command;

use support::attach_modes::{Watcher, watchers};
use support::cgroup::Cgroup;
use support::process::inside;
use support::totals::workload;
use support::until;

const STARTED: u64 = 20;

fn counted(watcher: &Watcher, cgroup: &Cgroup) -> u64 {
    workload(&watcher.agent.snapshot(), &cgroup.name).and_then(|row| row.exec).map_or(0, |exec| exec.execs)
}

#[test]
fn each_started_program_counts_once() {
    let watchers = watchers("exec");
    let cgroup = Cgroup::new("exec");
    for _ in 0..STARTED {
        let mut program = Command::new("true");
        inside(&mut program, &cgroup);
        assert!(program.status().expect("it can be started").success());
    }
    for watcher in &watchers {
        let mode = watcher.mode.name();
        until("they are charged", || (counted(watcher, &cgroup) >= STARTED).then_some(()));
        assert_eq!(counted(watcher, &cgroup), STARTED, "by {mode}");
        let exported = watcher.agent.scrape().value("sysprobe_execs_total", &[("container", &cgroup.name)]);
        assert_eq!(exported, Some(STARTED as f64), "by {mode}");
    }
}
