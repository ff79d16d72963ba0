//! Requests that a device holds until the cgroup that submitted them has been deleted.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use aya::maps::{HashMap, Map, MapData, MapError};
use io_uring::IoUring;
use io_uring::opcode::Write;
use io_uring::types::Fd;

use super::support::attach_modes::{Watcher, watchers};
use super::support::bpf::Objects;
use super::support::cgroup::Cgroup;
use super::support::device::Loop;
use super::support::process::{Load, cpus};
use super::support::storage::{Kind, Storage};
use super::support::until;
use super::{BLOCK, Seen, aio, alone, ring};

const BYTES: u64 = 16 << 20;

/// Memory with the alignment that direct I/O needs.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

/// Writes one block by each interface, and waits for both.
fn write(device: &Path) {
    let (by_ring, mut by_aio) = (Aligned([b'r'; BLOCK]), Aligned([b'a'; BLOCK]));
    let mut options = OpenOptions::new();
    let file: File = options.write(true).custom_flags(libc::O_DIRECT).open(device).expect("the device");
    let mut ring = IoUring::new(4).expect("a ring");
    let queue = aio::Queue::new().expect("a queue");
    let length = u32::try_from(BLOCK).expect("a few bytes");
    ring::push(&mut ring, &Write::new(Fd(file.as_raw_fd()), by_ring.0.as_ptr(), length).build());
    ring.submit().expect("it is taken");
    queue.submit(aio::Request::new(aio::WRITE, &file, &mut by_aio.0)).expect("it is taken");
    ring.submit_and_wait(1).expect("it completes");
    assert_eq!(ring.completion().next().map(|done| done.result()), Some(4096));
    assert_eq!(queue.wait().expect("it completes"), 4096);
}

/// The number of writes that a device has not completed.
fn held_writes(device: &Path) -> u64 {
    let name = device.file_name().expect("a device").to_string_lossy();
    let numbers = fs::read_to_string(format!("/sys/block/{name}/inflight")).expect("reads and writes");
    numbers.split_whitespace().nth(1).and_then(|writes| writes.parse().ok()).expect("two numbers")
}

/// An agent's map from cgroups to their slots.
struct Slots(HashMap<MapData, u64, u32>);

impl Slots {
    fn of(watcher: &Watcher) -> Self {
        let map = Map::HashMap(Objects::of_process(watcher.agent.pid()).map("VFS_SLOTS"));
        Self(HashMap::try_from(map).expect("from a number to a number"))
    }

    fn has(&self, cgroup: u64) -> bool {
        match self.0.get(&cgroup, 0) {
            Ok(_) => true,
            Err(MapError::KeyNotFound) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// By then, another cgroup may have its slot.
#[test]
fn a_request_that_outlives_its_cgroup_is_charged_to_it() {
    let _alone = alone();
    let watchers = watchers("vfs");
    let device = Loop::over(Storage::of(Kind::Ext4, BYTES), BYTES);
    let (first, next) = (Cgroup::new("outlived"), Cgroup::new("outlived-next"));
    let load = Load::stopped(&first, &cpus(), || write(&device.path));
    // Dropped before the load, which cannot be killed while its writes are held.
    let held = device.storage.freeze();
    load.resume();
    until("the device holds both writes", || (held_writes(&device.path) == 2).then_some(()));
    next.adopt(load.pid);
    let slots: Vec<_> = watchers.iter().map(Slots::of).collect();
    let (name, id) = (first.name.clone(), first.id());
    for slots in &slots {
        until("it has a slot, because it has opened the device", || slots.has(id).then_some(()));
    }
    drop(first);
    for slots in &slots {
        until("its slot is free", || (!slots.has(id)).then_some(()));
    }
    drop(held);
    load.finish();
    for watcher in &watchers {
        let (seen, others) = (Seen::of(watcher, &name), Seen::of(watcher, &next.name));
        let by_aio = u64::from(watcher.mode.hooks_functions());
        assert_eq!((seen.writes, others.writes), (ring::seen(1) + by_aio, 0), "{seen:?}");
        seen.assert_all_ended();
    }
}
