//! stress-ng as the load, and strace as an independent count of its calls.

use std::fs;
use std::process::{Command, Stdio};

use super::counts::{Count, Counts, of_workload};
use super::support::attach_modes::{Watcher, watchers};
use super::support::cgroup::Cgroup;
use super::support::figure;
use super::support::storage::{Kind, Storage};
use super::{ROOM, assert_nothing_lost};

const CALLS: &str = "read,pread64,readv,preadv,preadv2,write,pwrite64,writev,pwritev,pwritev2,fsync,\
    fdatasync,sync_file_range,msync,sendfile,splice,copy_file_range,\
    open,openat,openat2,creat,mkdir,mkdirat,mknod,\
    mknodat,link,linkat,symlink,symlinkat,rename,renameat,renameat2,unlink,unlinkat,rmdir,execve";

/// A job for each kind of operation, with its size.
const JOBS: [(&str, &[&str]); 5] = [
    ("hdd", &["--hdd-ops", "200", "--hdd-bytes", "1m", "--hdd-write-size", "4k", "--hdd-opts", "fdatasync"]),
    ("seek", &["--seek-ops", "100", "--seek-size", "1m"]),
    ("rename", &["--rename-ops", "50"]),
    ("dentry", &["--dentry-ops", "100", "--dentries", "32"]),
    ("dir", &["--dir-ops", "20"]),
];

/// The calls that strace has seen. strace cannot tell an open that creates the file from any other: both are
/// `open` here.
#[derive(Debug, Default)]
struct Seen {
    counts: Counts,
    programs: u64,
}

impl Seen {
    fn line(&mut self, line: &str) {
        let Some(((name, arguments), result)) =
            line.rsplit_once(" = ").and_then(|(call, result)| Some((call.split_once('(')?, result)))
        else {
            return;
        };
        let returned = number(result);
        let on_file = within(arguments).is_some_and(is_storage);
        match name {
            "execve" => self.programs += u64::from(returned == 0),
            "open" | "openat" | "openat2" | "creat" => {
                let counts = if returned < 0 {
                    names_storage(arguments)
                } else {
                    within(result).is_some_and(is_storage)
                };
                count(&mut self.counts.open, counts, returned);
            }
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => {
                self.counts.bytes_read += count(&mut self.counts.read, on_file, returned);
            }
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => {
                self.counts.bytes_written += count(&mut self.counts.write, on_file, returned);
            }
            "fsync" | "fdatasync" | "sync_file_range" => {
                count(&mut self.counts.fsync, on_file, returned);
            }
            "unlink" | "unlinkat" | "rmdir" => {
                count(&mut self.counts.unlink, names_storage(arguments), returned);
            }
            "msync" | "sendfile" | "splice" | "copy_file_range" => panic!("not one of these jobs: {line}"),
            _ => {
                count(&mut self.counts.open, names_storage(arguments), returned);
            }
        }
    }
}

/// Parses `-1 ENOENT (No such file or directory)` and `3</etc/passwd>`.
fn number(result: &str) -> i64 {
    let digits = result.split(|character: char| character != '-' && !character.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no number: {result}"))
}

/// The path of a descriptor at the start of a text: `3</etc/passwd>`.
fn within(text: &str) -> Option<&str> {
    let (descriptor, rest) = text.split_once('<')?;
    let is_one = !descriptor.is_empty() && descriptor.bytes().all(|byte| byte.is_ascii_digit());
    is_one.then(|| rest.split('>').next()).flatten()
}

/// Whether a path belongs to storage; pipes and sockets have no path.
fn is_storage(path: &str) -> bool {
    let is_device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
    path.starts_with('/') && !path.starts_with("/proc/") && !path.starts_with("/sys/") && !is_device
}

/// Whether the named file is on storage. With two names, the last one decides. A name relative to a
/// descriptor without a file leads nowhere: `20001, "bad", 0600`.
fn names_storage(arguments: &str) -> bool {
    let leads_nowhere = arguments.rsplit_once(", \"").is_some_and(|(before, name)| {
        let directory = before.rsplit(", ").next().unwrap_or(before);
        directory.parse::<i64>().is_ok() && !name.starts_with('/')
    });
    !leads_nowhere && !arguments.contains("\"/proc") && !arguments.contains("\"/sys")
}

/// Counts a call; returns its bytes if it reads or writes.
fn count(count: &mut Count, counts: bool, returned: i64) -> u64 {
    if counts {
        count.calls += 1;
        count.errors += u64::from(returned < 0);
    }
    if counts { u64::try_from(returned).unwrap_or(0) } else { 0 }
}

/// Whether strace did not see how a call ended: a signal ended the process meanwhile.
fn has_no_end(line: &str) -> bool {
    line.rsplit_once(" = ").is_some_and(|(_, result)| result.starts_with('?'))
}

/// Runs a job in a cgroup, with strace outside of it. `None` if strace did not see how all calls ended.
fn run(cgroup: &Cgroup, options: &[&str]) -> Option<Seen> {
    const ENTER: &str =
        "for entrance in $ENTRANCES; do echo 0 > $entrance; done; exec /usr/bin/stress-ng \"$@\"";
    let traces = tempfile::tempdir().expect("a directory");
    let entrances: Vec<String> = cgroup.entrances().iter().map(|path| path.display().to_string()).collect();
    let mut strace = Command::new("strace");
    // One file for each process, so that a call is always on one line.
    strace.args(["-ff", "-y", "-s", "0", "-e", &format!("trace={CALLS}")]);
    strace.arg("-o").arg(traces.path().join("trace")).args(["/bin/sh", "-c", ENTER, "sh"]);
    let output = strace.args(options).env("ENTRANCES", entrances.join(" ")).stdin(Stdio::null()).output();
    let output = output.expect("strace can be started");
    assert!(output.status.success(), "stress-ng: {}", String::from_utf8_lossy(&output.stderr));
    let mut seen = Seen::default();
    for trace in fs::read_dir(traces.path()).expect("a directory") {
        let text = fs::read_to_string(trace.expect("a file").path()).expect("text");
        // The first process is inside once it has written to the file; the others are inside from the start.
        let entered = text.find(&*entrances[0]).map_or(0, |opened| {
            opened + text[opened..].find("\nwrite(").expect("it enters") + "\nwrite(".len()
        });
        if text[entered..].lines().any(has_no_end) {
            return None;
        }
        text[entered..].lines().for_each(|line| seen.line(line));
    }
    Some(seen)
}

/// Runs a job in a cgroup of its own until strace has seen how all of its calls ended.
fn run_to_its_end(job: &str, options: &[&str]) -> (Cgroup, Seen) {
    let attempt = |number| {
        let cgroup = Cgroup::new(&format!("stress-{job}-{number}"));
        let seen = run(&cgroup, options)?;
        Some((cgroup, seen))
    };
    (1..=5).find_map(attempt).expect("strace sees how all calls of one of five runs end")
}

/// The counts in the terms of [`Seen`].
fn with_made_as_opened(counts: Counts) -> Counts {
    let both = |one: Count, other: Count| Count {
        calls: one.calls + other.calls,
        errors: one.errors + other.errors,
    };
    Counts { open: both(counts.open, counts.create), create: Count::default(), ..counts }
}

fn each(counts: Counts, change: impl Fn(Count) -> Count) -> Counts {
    let Counts { read, write, fsync, open, create, unlink, .. } = counts;
    let [read, write, fsync, open, create, unlink] = [read, write, fsync, open, create, unlink].map(change);
    Counts { read, write, fsync, open, create, unlink, ..counts }
}

fn without_errors(counts: Counts) -> Counts {
    each(counts, |count| Count { calls: count.calls - count.errors, errors: 0 })
}

/// The part of a job's counts, in function-based attach modes, that is due to the kernel starting the
/// program. The kernel opens the program and its loader; if an overlay calls the file system below, their
/// first bytes are read too. A program that does nothing shows how much that is.
#[derive(Clone, Copy, Debug)]
struct Start {
    opens: u64,
    reads: u64,
    bytes: u64,
}

impl Start {
    fn of(idle: Counts, seen: Counts) -> Self {
        Self {
            opens: idle.open.calls - seen.open.calls,
            reads: idle.read.calls - seen.read.calls,
            bytes: idle.bytes_read - seen.bytes_read,
        }
    }

    fn taken_from(self, mut counts: Counts) -> Counts {
        counts.open.calls -= self.opens;
        counts.read.calls -= self.reads;
        counts.bytes_read -= self.bytes;
        counts
    }
}

/// An attach mode's counts, in the terms of [`Seen`]. A call that does not reach the VFS fails only in the
/// system call, so errors are left out where functions are hooked.
fn of_mode(watcher: &Watcher, cgroup: &Cgroup) -> Counts {
    let counts = with_made_as_opened(of_workload(&watcher.agent.snapshot(), &cgroup.name));
    if watcher.mode.hooks_functions() { without_errors(counts) } else { counts }
}

#[test]
fn strace_sees_the_same_calls_of_stress_ng() {
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    let (idle, nothing) = run_to_its_end("idle", &["--version"]);
    let nothing = without_errors(nothing.counts);
    for (job, options) in JOBS {
        let worker = [format!("--{job}"), "1".to_owned()];
        let place = ["--temp-path".to_owned(), storage.path().display().to_string()];
        let all: Vec<&str> =
            worker.iter().chain(&place).map(|word| &**word).chain(options.iter().copied()).collect();
        let (cgroup, seen) = run_to_its_end(job, &all);
        figure(&format!("{job}: {seen:?}"));
        assert_eq!(seen.programs, 1, "{job}");
        for watcher in &watchers {
            let name = watcher.mode.name();
            let ours = of_mode(watcher, &cgroup);
            if watcher.mode.hooks_functions() {
                let start = Start::of(of_mode(watcher, &idle), nothing);
                figure(&format!("a program starts by {name}: {start:?}"));
                assert_eq!(start.taken_from(ours), without_errors(seen.counts), "{job} by {name}");
            } else {
                assert_eq!(ours, seen.counts, "{job} by {name}");
            }
        }
    }
    assert_nothing_lost(&watchers);
}
