//! Known loads: a forked child that enters a cgroup, is pinned, and stops itself before it begins, so that a
//! test can read the kernel's counters first.

use std::ffi::CString;
use std::fs;
use std::hint::black_box;
use std::io;
use std::mem::zeroed;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::cgroup::Cgroup;
use super::totals::Totals;
use super::until;

/// A child process; killed and reaped when it is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) pid: i32,
    reaped: bool,
}

impl Load {
    /// A child in `cgroup`, allowed on `cpus`, stopped before `body`. It ends when `body` does.
    ///
    /// It is a fork of the test without an exec: `body` may start threads and sleep, but must not print,
    /// panic or take a lock that another thread of the test may have held.
    pub(crate) fn stopped(cgroup: &Cgroup, cpus: &[usize], body: impl FnOnce()) -> Self {
        let entrances = entrances(cgroup);
        // SAFETY: the child runs what its contract above allows and leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: this is the child, which has only this thread.
            unsafe { begin(&entrances, cpus) };
            let ended_well = catch_unwind(AssertUnwindSafe(body)).is_ok();
            // SAFETY: ends the child without running the test's cleanup.
            unsafe { libc::_exit(i32::from(!ended_well)) };
        }
        let load = Self { pid, reaped: false };
        load.wait_until_frozen();
        load
    }

    pub(crate) fn running(cgroup: &Cgroup, cpus: &[usize], body: impl FnOnce()) -> Self {
        let load = Self::stopped(cgroup, cpus, body);
        load.resume();
        load
    }

    pub(crate) fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Stops every thread, and waits until all of them are off their CPUs.
    pub(crate) fn freeze(&self) {
        self.signal(libc::SIGSTOP);
        self.wait_until_frozen();
    }

    fn wait_until_frozen(&self) {
        until("every thread is stopped", || is_frozen(self.pid).then_some(()));
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals::of_process(self.pid)
    }

    /// The CPU time of a load that runs all the time. It is read until it has changed, because the kernel
    /// brings it up to date at ticks and switches only.
    pub(crate) fn fresh_on_cpu_ns(&self) -> u64 {
        let on_cpu_ns = || self.totals().on_cpu_ns;
        let stale = on_cpu_ns();
        until("the CPU time is up to date", || Some(on_cpu_ns()).filter(|now| *now > stale))
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child has not been reaped, so the pid still belongs to it.
        assert_eq!(unsafe { libc::kill(self.pid, signal) }, 0, "{}", io::Error::last_os_error());
    }

    /// Kills the child; it ends as soon as the kernel allows.
    pub(crate) fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    /// Moves its first thread to another CPU, now or when it wakes up.
    pub(crate) fn move_to(&self, cpu: usize) {
        move_to(self.pid, cpu);
    }

    /// Waits for the end of `body`, which must not have panicked.
    pub(crate) fn finish(mut self) {
        self.wait();
    }

    /// Like [`Self::finish`], for a load that is part of another value.
    pub(crate) fn wait(&mut self) {
        let ended = until("the load ends", || self.reap(libc::WNOHANG));
        self.reaped = true;
        // One that the test killed has no exit code.
        assert!(ended.code().is_none_or(|code| code == 0), "the load panicked: {ended}");
    }

    fn reap(&self, flags: i32) -> Option<ExitStatus> {
        let mut status = 0;
        // SAFETY: the address is of a live value.
        let pid = unsafe { libc::waitpid(self.pid, &raw mut status, flags) };
        assert!(pid >= 0, "waitpid: {}", io::Error::last_os_error());
        (pid == self.pid).then(|| ExitStatus::from_raw(status))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if !self.reaped {
            // SAFETY: not reaped yet, so the pid is the child's.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            self.reap(0);
        }
    }
}

/// Moves the calling thread to a CPU.
pub(crate) fn move_this_thread_to(cpu: usize) {
    move_to(0, cpu);
}

fn move_to(thread: i32, cpu: usize) {
    let set = set_of(&[cpu]);
    // SAFETY: the address is of a live value of that size.
    let result = unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Makes a command start in a cgroup.
pub(crate) fn inside(command: &mut Command, cgroup: &Cgroup) {
    let entrances = entrances(cgroup);
    let enter = move || {
        for entrance in &entrances {
            // SAFETY: a path and a byte that live; the descriptor is closed by the exec.
            unsafe {
                let file = libc::open(entrance.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if libc::write(file, c"0".as_ptr().cast(), 1) != 1 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(enter) };
}

fn entrances(cgroup: &Cgroup) -> Vec<CString> {
    let path = |entrance: &PathBuf| CString::new(entrance.as_os_str().as_bytes()).expect("no NUL in a path");
    cgroup.entrances().iter().map(path).collect()
}

/// The child's first steps: it dies with the test, closes the test's files, and enters its cgroup and CPUs.
unsafe fn begin(entrances: &[CString], cpus: &[usize]) {
    // SAFETY: system calls on plain values and on addresses that live.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        for entrance in entrances {
            let file = libc::open(entrance.as_ptr(), libc::O_WRONLY);
            if libc::write(file, c"0".as_ptr().cast(), 1) != 1 {
                libc::_exit(1);
            }
            libc::close(file);
        }
        let set = set_of(cpus);
        if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) != 0 {
            libc::_exit(1);
        }
        libc::raise(libc::SIGSTOP);
    }
}

fn set_of(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: plain integers, for which zero is a value.
    let mut set = unsafe { zeroed::<libc::cpu_set_t>() };
    for cpu in cpus {
        // SAFETY: the numbers come from such a set.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    set
}

/// Whether every thread is stopped and off its CPU. `syscall` has an answer only once a thread that is not
/// runnable has been switched out (`wait_task_inactive`); its state changes a moment earlier.
fn is_frozen(pid: i32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let mut tasks = tasks.filter_map(Result::ok).map(|task| task.path());
    tasks.all(|task| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        let is_stopped = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
        is_stopped && fs::read_to_string(task.join("syscall")).is_ok_and(|text| text.trim() != "running")
    })
}

/// The CPUs that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    // SAFETY: plain integers, for which zero is a value.
    let mut set = unsafe { zeroed::<libc::cpu_set_t>() };
    // SAFETY: the address is of a live value of that size.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    // SAFETY: the numbers are within the set.
    (0..1024).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

// === Bodies ===

/// Uses the CPU until this much wall-clock time has passed, time spent waiting for the CPU included.
pub(crate) fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        black_box(0);
    }
}

/// Uses this much CPU time, however long it takes.
pub(crate) fn use_cpu(time: Duration) {
    let enough = own_cpu_ns() + u64::try_from(time.as_nanos()).expect("small");
    while own_cpu_ns() < enough {}
}

pub(crate) fn spin() {
    loop {
        spin_for(Duration::from_secs(1));
    }
}

/// Sleeps a millisecond, works a little, and repeats.
pub(crate) fn sleep_often() {
    sleep_and_work(Duration::from_millis(1), Duration::from_micros(100));
}

/// Sleeps, works, and repeats.
pub(crate) fn sleep_and_work(sleep: Duration, work: Duration) {
    loop {
        thread::sleep(sleep);
        spin_for(work);
    }
}

/// Runs the same body in this many threads, the calling one included.
pub(crate) fn in_threads(count: usize, body: fn()) {
    let others: Vec<_> = (1..count).map(|_| thread::spawn(body)).collect();
    body();
    for other in others {
        drop(other.join());
    }
}

/// Keeps `count` threads in a ring, the calling one included: each works a little and wakes the next. About
/// `awake` of them are runnable at a time, or fewer later on: two turns become one where they meet.
pub(crate) fn in_ring(count: usize, awake: usize) {
    let first = thread::current();
    let mut ring = vec![first];
    while ring.len() < count {
        let next = ring[ring.len() - 1].clone();
        ring.push(thread::spawn(move || work_in_turn(&next)).thread().clone());
    }
    for thread in ring.iter().step_by(count / awake) {
        thread.unpark();
    }
    work_in_turn(&ring[count - 1]);
}

fn work_in_turn(next: &Thread) {
    loop {
        thread::park();
        spin_for(Duration::from_micros(10));
        next.unpark();
    }
}

/// Runs `body` in a child, and waits for its end. For a load, which has a single thread.
pub(crate) fn in_child(body: impl FnOnce()) {
    // SAFETY: the child runs what a load may run and leaves by `_exit`; no status is written.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            body();
            libc::_exit(0);
        }
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// The CPU time that the calling thread has used so far.
pub(crate) fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the address is of a live value.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Yields the CPU as often as possible.
pub(crate) fn yield_often() {
    loop {
        thread::yield_now();
    }
}

/// A thread that a tracer has stopped; it continues when this is dropped. The other threads of its process
/// keep running.
#[derive(Debug)]
pub(crate) struct Traced(i32);

impl Traced {
    /// Call and drop this on the same thread, because that is the tracer.
    pub(crate) fn stop(thread: i32) -> Self {
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: neither request reads or writes memory of ours.
        unsafe {
            assert_eq!(
                libc::ptrace(libc::PTRACE_SEIZE, thread, null, null),
                0,
                "{}",
                io::Error::last_os_error()
            );
            assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, thread, null, null), 0);
        }
        // SAFETY: without an address for the status, nothing is written.
        let stopped = unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
        assert_eq!(stopped, thread, "{}", io::Error::last_os_error());
        Self(thread)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the request reads and writes no memory of ours.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, null, null) };
    }
}
