//! With more system calls than the node's limit, the agent stops measuring them, reports that, and resumes as
//! soon as there are fewer.

#[path = "vfs/ring.rs"]
mod ring;
mod support;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use support::agent::Agent;
use support::cgroup::Cgroup;
use support::process::{Load, cpus};
use support::totals::{lost, workload};
use support::{figure, left_out, until};
use sysprobe_agent::snapshot::{DomainState, Snapshot};

/// System calls per second; an otherwise idle machine makes fewer.
const LIMIT: u64 = 100_000;
const TIMES: u64 = 100;

fn state(snapshot: &Snapshot) -> &DomainState {
    snapshot.domain("vfs").expect("a domain")
}

/// The number of reads that the agent counts for a cgroup.
fn reads(snapshot: &Snapshot, cgroup: &Cgroup) -> u64 {
    let storage = workload(snapshot, &cgroup.name).and_then(|row| row.vfs.as_ref());
    storage.map_or(0, |storage| storage.read.latency.count())
}

/// A child reads through `io_uring`, without system calls for the reads.
fn read_by_ring(cgroup: &Cgroup, file: &Path) {
    Load::running(cgroup, &cpus(), || ring::read_block(file, TIMES)).finish();
}

/// Calls `getppid` as often as possible.
fn call() {
    loop {
        // SAFETY: it has no preconditions.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
}

#[test]
fn too_many_system_calls_are_not_looked_at_until_there_are_fewer() {
    let agent = Agent::configured(&format!("attach = \"tp_btf\"\nvfs_calls_per_second = {LIMIT}\n"));
    let before = state(&agent.snapshot()).clone();
    if !before.up {
        left_out("the limit of system calls", &before.reason);
        return;
    }
    let storm = Cgroup::new("storm");
    let load = Load::running(&storm, &cpus(), call);
    let shed = until("the calls are too many", || {
        let snapshot = agent.snapshot();
        let state = state(&snapshot);
        state.is_shed().then(|| state.clone())
    });
    figure(&format!("{shed:?}"));
    assert!(shed.reason.contains(&LIMIT.to_string()), "{}", shed.reason);
    let metrics = agent.get("/metrics").expect("an answer").body;
    assert!(metrics.contains("sysprobe_agent_shed_info{domain=\"vfs\""), "the scrape says so");
    let directory = tempfile::tempdir().expect("a directory");
    let block = directory.path().join("block");
    fs::write(&block, [1; ring::BLOCK]).expect("a file");
    let reader = Cgroup::new("ring");
    read_by_ring(&reader, &block);
    drop(load);
    until("there are fewer, and the first pause is over", || {
        (*state(&agent.snapshot()) == before).then_some(())
    });
    let writer = Cgroup::new("writer");
    Load::running(&writer, &cpus(), || {
        let mut file = File::create(directory.path().join("file")).expect("a file");
        for _ in 0..TIMES {
            file.write_all(b"a line").expect("written");
        }
    })
    .finish();
    let snapshot = agent.snapshot();
    let storage = workload(&snapshot, &writer.name).and_then(|row| row.vfs.as_ref()).expect("it wrote");
    assert_eq!(storage.write.latency.count(), TIMES, "each is counted again");
    assert_eq!(reads(&snapshot, &reader), 0, "a part would look like all");
    read_by_ring(&reader, &block);
    assert_eq!(reads(&agent.snapshot(), &reader), ring::seen(TIMES), "so are requests");
    // Calls that were in progress when measuring stopped are lost; none may appear longer than it was.
    figure(&format!("{} ends were missed", lost(&snapshot, "vfs", "end_missed")));
}
