//! Devices that fail and devices that are slow, made with the device mapper.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sysprobe_agent::snapshot::HistogramSample;
use sysprobe_common::hist;

use super::calls::{self, close, fails, open, worked};
use super::counts::{Count, Counts, calls as times, failed};
use super::engines::sees;
use super::fio;
use super::support::attach_modes::{Watcher, watchers};
use super::support::cgroup::Cgroup;
use super::support::device::{Mapped, SECTOR};
use super::support::storage::{Kind, Storage};
use super::support::totals::workload;
use super::support::{buckets_apart, figure, left_out};
use super::{assert_nothing_lost, assert_same, watch};

/// `mkfs.xfs` needs at least 300 MiB.
const DEVICE: u64 = 320 << 20;
const FILE: usize = 1 << 20;
const BLOCK: usize = 4096;

const NO_MAPPER: &str = "this kernel has no device mapper";

/// Memory with the alignment that direct I/O needs.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

/// The offset of a block in a file.
const fn block(number: i64) -> i64 {
    number * 4096
}

/// The expected counts of [`all_fail`]: three reads, five writes, two of which reach the device themselves,
/// and three syncs.
const ALL_FAIL: Counts = Counts {
    read: failed(3),
    write: Count { calls: 5, errors: 2 },
    fsync: failed(3),
    open: times(3),
    bytes_written: 3 * BLOCK as u64,
    ..Counts::NONE
};

/// Accesses a file or a device whose blocks are all broken and not in memory. A write to the page cache fails
/// only at writeback.
fn all_fail(name: &CStr) {
    let mut memory = Aligned([b'z'; BLOCK]);
    let bytes = memory.0.as_mut_ptr().cast::<libc::c_void>();
    let iovec = libc::iovec { iov_base: bytes, iov_len: BLOCK };
    let file = open(name, libc::O_RDWR);
    // SAFETY: descriptors and memory that live.
    unsafe {
        fails(libc::pread(file, bytes, BLOCK, 0) as _, libc::EIO);
        fails(libc::preadv(file, &raw const iovec, 1, block(8)) as _, libc::EIO);
        worked(libc::pwrite(file, bytes, BLOCK, block(16)) as _);
        fails(libc::fsync(file).into(), libc::EIO);
        worked(libc::pwrite(file, bytes, BLOCK, block(24)) as _);
        fails(libc::fdatasync(file).into(), libc::EIO);
        worked(libc::pwrite(file, bytes, BLOCK, block(32)) as _);
        let and_wait = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        fails(libc::sync_file_range(file, 0, 0, and_wait).into(), libc::EIO);
    }
    close(file);
    let synchronous = open(name, libc::O_WRONLY | libc::O_SYNC);
    let direct = open(name, libc::O_RDWR | libc::O_DIRECT);
    // SAFETY: as above.
    unsafe {
        fails(libc::pwrite(synchronous, bytes, BLOCK, block(40)) as _, libc::EIO);
        fails(libc::pread(direct, bytes, BLOCK, block(48)) as _, libc::EIO);
        fails(libc::pwrite(direct, bytes, BLOCK, block(56)) as _, libc::EIO);
    }
    close(direct);
    close(synchronous);
}

/// Writes a file and finds its contiguous place on the device: the first sector and the number of sectors.
fn place(name: &Path) -> (u64, u64) {
    // From include/uapi/linux/fs.h: the device block of a file's block, and the block size.
    const FIBMAP: libc::c_ulong = 1;
    const FIGETBSZ: libc::c_ulong = 2;
    let file = File::options().read(true).write(true).create_new(true).open(name).expect("a file");
    file.write_all_at(&vec![b'y'; FILE], 0).and_then(|()| file.sync_all()).expect("it reaches the device");
    let ask = |question: libc::c_ulong, value: u64| {
        let mut value = libc::c_int::try_from(value).expect("a small number");
        // SAFETY: the address is of a live value.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), question, &raw mut value) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        u64::try_from(value).expect("a block")
    };
    let size = ask(FIGETBSZ, 0);
    let first = ask(FIBMAP, 0);
    assert!((0..FILE as u64 / size).all(|block| ask(FIBMAP, block) == first + block), "in several pieces");
    // SAFETY: plain values.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    (first * size / SECTOR, FILE as u64 / SECTOR)
}

#[test]
fn what_a_device_refuses_is_an_error_of_the_call_that_needed_it() {
    let Some(device) = Mapped::new("broken", DEVICE) else {
        return left_out("calls that fail with EIO", NO_MAPPER);
    };
    let watchers = watchers("vfs");
    for kind in [Kind::Ext4, Kind::Xfs] {
        let storage = Storage::upon(kind, &device.path());
        let file = storage.path().join("file");
        let (start, sectors) = place(&file);
        device.fail(start, sectors);
        let seen = watch(&watchers, &format!("broken-{}", kind.name()), || all_fail(&calls::path(&file)));
        assert_same(&format!("EIO on {}", kind.name()), &seen, &ALL_FAIL);
        device.mend();
    }
    device.fail_all();
    let seen = watch(&watchers, "broken-device", || all_fail(&calls::path(&device.path())));
    assert_same("EIO of a device", &seen, &ALL_FAIL);
    assert_nothing_lost(&watchers);
}

/// An attach mode's histogram of calls that took at least this long; fio's other reads, of its libraries, are
/// faster.
fn slow_only(latency: &HistogramSample, nanoseconds: u64) -> HistogramSample {
    let first = hist::bucket_of(nanoseconds);
    let slow = |bucket| if bucket < first { 0 } else { latency.buckets()[bucket] };
    HistogramSample::new(std::array::from_fn(slow), 0)
}

#[test]
fn fio_reports_the_same_latency_of_readings_from_a_slow_device() {
    const MILLISECONDS: u64 = 400;
    const TIMES: u64 = 20;
    let Some(device) = Mapped::new("slow", DEVICE) else {
        return left_out("readings that take long", NO_MAPPER);
    };
    device.delay(MILLISECONDS);
    fio::warm_up();
    let watchers = watchers("vfs");
    for engine in ["psync", "libaio", "io_uring", "mmap"] {
        let cgroup = Cgroup::new(&format!("slow-{engine}"));
        let report = fio::run_on_device(&cgroup, &device.path(), engine, TIMES);
        let slow_of = |watcher: &Watcher| {
            let snapshot = watcher.agent.snapshot();
            let vfs = workload(&snapshot, &cgroup.name).and_then(|workload| workload.vfs.as_ref());
            let vfs = vfs.expect("it did something");
            let latency = if engine == "mmap" { &vfs.fault.latency } else { &vfs.read.latency };
            (watcher.mode.name(), slow_only(latency, MILLISECONDS * 1_000_000 * 9 / 10))
        };
        let who = watchers.iter().filter(|watcher| sees(watcher.mode, engine));
        assert_equal_latency(engine, &report, &who.map(slow_of).collect::<Vec<_>>(), TIMES);
    }
}

fn assert_equal_latency(
    engine: &str,
    report: &fio::Report,
    slow: &[(&'static str, HistogramSample)],
    times: u64,
) {
    let counts: Vec<_> = slow.iter().map(|(name, slow)| (*name, slow.count())).collect();
    figure(&format!("fio, {engine}: {report:?}, slow reads: {counts:?}"));
    for (name, slow) in slow {
        assert_eq!(slow.count(), times, "{engine} by {name}: {slow:?}");
        for (quantile, theirs) in [(0.5, report.p50_ns), (0.99, report.p99_ns)] {
            let ours = slow.quantile(quantile).expect("there are some");
            let steps = buckets_apart(ours, theirs);
            figure(&format!(
                "{quantile} of {engine} by {name}: {:.2} ms, fio {:.2} ms, {steps} buckets apart",
                ours * 1e3,
                theirs as f64 / 1e6
            ));
            assert!(steps <= 1, "{quantile} of {engine} by {name}: {ours} s, fio {theirs} ns");
        }
    }
}
