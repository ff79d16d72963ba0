//! Unusual requests of `io_uring` and libaio: on sockets, without a completion, with a completion that does
//! not fit, refused, completed after the end of their cgroup. All other requests must still be counted
//! exactly.
//!
//! This is separate from `vfs`, because ends that are missed here on purpose would also be missed there.

#[path = "vfs/aio.rs"]
mod aio;
#[path = "vfs/outlived.rs"]
mod outlived;
#[path = "vfs/ring.rs"]
mod ring;
mod support;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use io_uring::squeue::Flags;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use ring::{BLOCK, push, read, read_block};
use support::attach_modes::{Watcher, watchers};
use support::cgroup::Cgroup;
use support::figure;
use support::process::{Load, cpus};
use support::storage::{Kind, Storage};
use support::totals::{lost, missed_runs, workload};
use sysprobe_agent::probe::AttachMode;
use sysprobe_common::vfs::STARTED;

const ROOM: u64 = 64 << 20;
/// Storage reads in each test.
const READS: u64 = 100;
/// More than the tables can hold.
const MANY: u32 = STARTED + 1000;

/// A request that is missed on the node is missed by the agents of every test.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a child read or write a small file, and returns what each attach mode saw.
fn watch(name: &str, body: impl FnOnce(&Path)) -> Vec<Seen> {
    let watchers = watchers("vfs");
    let storage = Storage::of(Kind::Ext4, ROOM);
    let path = storage.path().join("file");
    std::fs::write(&path, vec![1; BLOCK]).expect("a file");
    let cgroup = Cgroup::new(name);
    Load::running(&cgroup, &cpus(), || body(&path)).finish();
    watchers.iter().map(|watcher| Seen::of(watcher, &cgroup.name)).collect()
}

#[derive(Debug)]
struct Seen {
    mode: AttachMode,
    reads: u64,
    writes: u64,
    fsyncs: u64,
    beginnings_missed: u64,
    ends_missed: u64,
    /// Runs that the kernel skipped: while a program is preempted, it does not run again on that CPU.
    missed_runs: u64,
}

impl Seen {
    fn of(watcher: &Watcher, cgroup: &str) -> Self {
        let snapshot = watcher.agent.snapshot();
        let vfs = workload(&snapshot, cgroup).and_then(|workload| workload.vfs.clone());
        let vfs = vfs.unwrap_or_default();
        let seen = Self {
            mode: watcher.mode,
            reads: vfs.read.latency.count(),
            writes: vfs.write.latency.count(),
            fsyncs: vfs.fsync.latency.count(),
            beginnings_missed: lost(&snapshot, "vfs", "beginning_missed"),
            ends_missed: lost(&snapshot, "vfs", "end_missed"),
            missed_runs: missed_runs(&snapshot, "vfs"),
        };
        figure(&format!("{cgroup}: {seen:?}"));
        seen
    }

    fn assert_all_ended(&self) {
        assert_eq!(self.beginnings_missed, 0, "{self:?}");
        assert!(self.ends_missed <= self.missed_runs, "{self:?}");
    }
}

#[test]
fn requests_that_wait_at_sockets_take_no_room_from_storage() {
    let _alone = alone();
    let seen = watch("ring-sockets", |path| {
        let (reader, _writer) = UnixStream::pair().expect("two sockets");
        let mut waiting = IoUring::new(MANY.next_power_of_two()).expect("a ring");
        let mut byte = [0];
        for _ in 0..MANY {
            let entry = opcode::Read::new(Fd(reader.as_raw_fd()), byte.as_mut_ptr(), 1).build();
            push(&mut waiting, &entry);
        }
        assert_eq!(waiting.submit().expect("all are taken"), MANY as usize);
        read_block(path, READS);
    });
    for seen in seen {
        assert_eq!(seen.reads, ring::seen(READS), "{seen:?}");
        seen.assert_all_ended();
    }
}

/// The kernel suppresses the completion: the request is not seen, and nothing of it remains.
#[test]
fn requests_that_want_no_completion_leave_nothing_behind() {
    let _alone = alone();
    let seen = watch("ring-skip", |path| {
        let mut ring = IoUring::new(4).expect("a ring");
        // Supported since 5.17.
        if !ring.params().is_feature_skip_cqe_on_success() {
            return;
        }
        let file = File::open(path).expect("a file");
        let mut buffer = [0; BLOCK];
        for _ in 0..READS {
            push(&mut ring, &read(&file, &mut buffer).flags(Flags::SKIP_SUCCESS));
            ring.submit().expect("it is taken");
        }
        read_block(path, READS);
    });
    for seen in seen {
        assert_eq!(seen.reads, ring::seen(READS), "{seen:?}");
        seen.assert_all_ended();
    }
}

/// From 6.3 on, no tracepoint shows that `io_uring` completes a request that overflows the ring. The stale
/// entry is noticed when the request's memory is reused.
#[test]
fn requests_that_overflow_their_ring_are_counted_or_lost_and_others_are_counted() {
    /// More than the two completions that fit.
    const OVER: u64 = 6;
    let _alone = alone();
    let seen = watch("ring-overflow", |path| {
        let mut ring = IoUring::builder().setup_cqsize(2).build(2).expect("a ring");
        let file = File::open(path).expect("a file");
        let mut buffer = [0; BLOCK];
        for _ in 0..2 + OVER {
            push(&mut ring, &read(&file, &mut buffer));
            ring.submit().expect("it is taken");
        }
        // Reuses the ring's request memory once all overflows are flushed and read.
        let mut left = 2 + OVER + READS;
        let mut begun = 2 + OVER;
        while left > 0 {
            ring.submit_and_wait(1).expect("one has completed");
            left -= ring.completion().count() as u64;
            if begun < 2 + OVER + READS && left < 2 + READS {
                push(&mut ring, &read(&file, &mut buffer));
                begun += 1;
            }
        }
    });
    for seen in seen {
        let certain = ring::seen(2 + READS);
        assert!((certain..=certain + ring::seen(OVER)).contains(&seen.reads), "{seen:?}");
        assert_eq!(seen.beginnings_missed, 0, "{seen:?}");
        assert!(seen.ends_missed <= OVER + seen.missed_runs, "{seen:?}");
    }
}

/// A request that libaio refuses never completes.
#[test]
fn requests_that_libaio_refuses_are_none() {
    let _alone = alone();
    let seen = watch("aio-refused", |path| {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("a file");
        let queue = aio::Queue::new().expect("a queue");
        let mut buffer = [0; BLOCK];
        for _ in 0..READS {
            for operation in [aio::READ, aio::WRITE] {
                let refused =
                    queue.submit(aio::Request::new(operation, &file, &mut buffer).with_flags(1 << 30));
                assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::Unsupported));
            }
            queue.submit(aio::Request::new(aio::READ, &file, &mut buffer)).expect("it is taken");
            assert_eq!(queue.wait().expect("it completes"), 4096);
        }
    });
    for seen in seen {
        assert_eq!(seen.reads, if seen.mode.hooks_functions() { READS } else { 0 }, "{seen:?}");
        assert_eq!((seen.writes, seen.fsyncs), (0, 0), "{seen:?}");
        seen.assert_all_ended();
    }
}
