//! Cgroups as a container sees them: its own cgroup namespace, its part of the hierarchy at the usual place,
//! and the host's hierarchy mounted elsewhere. The names there are compared with those of an agent that runs
//! on the host itself.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use sysprobe_agent::cgroup::mounts::{KeyHierarchy, Mounts};
use sysprobe_agent::snapshot::Snapshot;

use crate::limited::{limit, needed};
use crate::support::agent::{self, Agent, Options};
use crate::support::cgroup::{Cgroup, is_v1};
use crate::support::mounts::{self, mount};
use crate::support::process::{self, Load, cpus};
use crate::support::totals::{Totals, workload};
use crate::support::{command, done, figure, until};

const USUAL: &str = "/sys/fs/cgroup";

/// Where a container has its own part of the key hierarchy, and how it is mounted there.
struct Own {
    point: CString,
    kind: CString,
    options: CString,
}

impl Own {
    fn new() -> Self {
        let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let text = |text: &str| CString::new(text).expect("no NUL");
        match Mounts::parse(&mountinfo).key().expect("a hierarchy") {
            KeyHierarchy::V2 { .. } => Self { point: text(USUAL), kind: text("cgroup2"), options: text("") },
            KeyHierarchy::V1 { root, .. } => {
                let controllers = root.file_name().expect("a name").to_str().expect("UTF-8");
                let point = text(&format!("{USUAL}/{controllers}"));
                Self { point, kind: text("cgroup"), options: text(controllers) }
            }
        }
    }

    /// Mounts it in place of the host's hierarchy. v1 has a directory for each hierarchy.
    fn mount(&self) -> io::Result<()> {
        // SAFETY: strings that live, as in all of these.
        unsafe {
            done(libc::umount2(c"/sys/fs/cgroup".as_ptr(), libc::MNT_DETACH))?;
            if self.kind.as_c_str() == c"cgroup" {
                mount(c"tmpfs", c"/sys/fs/cgroup", Some(c"tmpfs"), 0, c"")?;
                done(libc::mkdir(self.point.as_ptr(), 0o755))?;
            }
        }
        mount(c"cgroup", &self.point, Some(&self.kind), 0, &self.options)
    }
}

/// Makes a command start in `own`, which it sees as the root, with the host's cgroups at `host`, read-only.
fn contain(command: &mut Command, own: &Cgroup, host: &Path) {
    process::inside(command, own);
    let (part, host) = (Own::new(), CString::new(host.as_os_str().as_bytes()).expect("no NUL in a path"));
    let enter = move || {
        // SAFETY: changes nothing but this child, which has only this thread.
        done(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) })?;
        mounts::separate()?;
        mount(c"/sys/fs/cgroup", &host, None, libc::MS_BIND | libc::MS_REC, c"")?;
        mount(c"none", &host, None, libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY, c"")?;
        part.mount()
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(enter) };
    limit(command, &needed());
}

/// The containers that have been on a CPU.
fn names(snapshot: &Snapshot) -> BTreeSet<String> {
    let ran =
        snapshot.workloads.iter().filter(|one| one.sched.as_ref().is_some_and(|sched| sched.on_cpu_ns > 0));
    ran.map(|one| one.workload.container.clone()).collect()
}

#[test]
fn a_container_that_is_shown_the_hosts_cgroups_names_all_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let host = directory.path().to_str().expect("UTF-8");
    let own = Cgroup::new("agents-own");
    let (outer, older) = (Cgroup::new("outer"), Cgroup::new("outer/older"));
    let _loads = [&outer, &older].map(|cgroup| Load::running(cgroup, &cpus(), process::sleep_often));
    // A cgroup that another test has closed (`a_cgroup_that_its_owner_has_closed...`) stays known to the
    // plain agent until it is forgotten.
    let config = format!("grace_seconds = 2\n{}", agent::with_only(&["sched"]));
    let options = Options { config: &config, ..Options::default() };
    let arguments = ["--cgroup-root", host];
    let contained = Agent::prepared(Options { arguments: &arguments, ..options }, |command| {
        contain(command, &own, directory.path());
    });
    let plain = Agent::with(options);
    let younger = Cgroup::new("outer/younger");
    let _younger = Load::running(&younger, &cpus(), process::sleep_often);
    until("both know all cgroups by the same names", || {
        // The contained agent started first, so it has seen every cgroup that the plain one has.
        let (ours, theirs) = (names(&plain.snapshot()), names(&contained.snapshot()));
        let all = [&own, &outer, &older, &younger].iter().all(|cgroup| ours.contains(&cgroup.name));
        (all && ours.is_subset(&theirs)).then(|| figure(&format!("named in a container: {theirs:?}")))
    });
    let (theirs, ours) = (contained.snapshot(), plain.snapshot());
    assert_eq!(theirs.domains, ours.domains);
    assert!(Totals::of_workload(&theirs, &older.name).voluntary > 0);
    until("its files are read", || {
        let snapshot = contained.snapshot();
        (workload(&snapshot, &older.name)?.cpu.as_ref()?.usage_ns? > 0).then_some(())
    });
    assert!(!contained.log().contains("cgroup namespace"), "{}", contained.log());
}

#[test]
fn a_container_that_is_shown_its_own_part_only_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let own = Cgroup::new("part");
    let mut check = command::sysprobe();
    check.args(["check", "--no-load", "--cgroup-root", USUAL]);
    contain(&mut check, &own, directory.path());
    let outcome = command::run(&mut check);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let warning = outcome.stdout.lines().find(|line| line.starts_with("Warning: ")).unwrap_or_default();
    assert!(warning.contains("--cgroup-root"), "v1: {}, {}", is_v1(), outcome.stdout);
}
