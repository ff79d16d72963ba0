//! fio by other ways than system calls that read and write: what `docs/limitations.md` says of them stays true.

use sysprobe_agent::probe::Tier;

use super::ROOM;
use super::counts::of_workload;
use super::fio::{Job, Report};
use super::support::cgroup::Cgroup;
use super::support::figure;
use super::support::storage::{Kind, Storage};
use super::support::tiers::{Watcher, watchers};

/// What fio does beyond its own beginning and end, which are the same in both runs: by its own account, and by each tier.
fn beyond<'a>(
    watchers: &'a [Watcher],
    storage: &Storage,
    job: &Job,
    name: &str,
) -> (Report, Vec<(&'a Watcher, Report)>) {
    let [(small, seen_small), (large, seen_large)] = ["2m", "4m"].map(|size| {
        let cgroup = Cgroup::new(&format!("engine-{name}-{size}"));
        let report = Job { size, ..*job }.run(&cgroup, storage.path());
        let counts = |watcher: &Watcher| of_workload(&watcher.agent.snapshot(), &cgroup.name);
        let seen = watchers.iter().map(|watcher| Report::of_counts(&counts(watcher), job.direction));
        (report, seen.collect::<Vec<_>>())
    });
    let less = seen_large.iter().zip(&seen_small).map(|(large, small)| large.less(small));
    (large.less(&small), watchers.iter().zip(less).collect())
}

/// How many synchronisations a tier sees. fio makes the system call itself beside `libaio`.
fn synchronisations(watcher: &Watcher, engine: &str, theirs: u64) -> u64 {
    let sees_functions = matches!(watcher.tier, Tier::Fentry | Tier::Kprobe);
    if engine == "libaio" || sees_functions { theirs } else { 0 }
}

#[test]
fn asynchronous_readings_and_writings_are_not_counted_and_synchronisations_are_by_function() {
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    // The files that are read are there already: fio has written them.
    for direction in ["write", "read"] {
        for (engine, direct) in [("libaio", "1"), ("io_uring", "0"), ("io_uring", "1")] {
            // One at a time: of several that wait, a kretprobe may miss some.
            let options = ["--iodepth=1", &format!("--direct={direct}")];
            let job = Job { engine, direction, size: "", options: &options };
            let name = format!("{engine}-{direct}-{direction}");
            let (theirs, ours) = beyond(&watchers, &storage, &job, &name);
            figure(&format!("{name}: {theirs:?}"));
            assert!(theirs.calls > 0, "{name}: {theirs:?}");
            for (watcher, seen) in ours {
                figure(&format!("{name} by {}: {seen:?}", watcher.tier.name()));
                let fsyncs = synchronisations(watcher, engine, theirs.fsyncs);
                let expected = Report { fsyncs, ..Report::default() };
                assert_eq!(seen, expected, "{name} by {}", watcher.tier.name());
            }
        }
    }
}
