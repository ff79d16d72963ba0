//! What still has the number of a freed slot must not count for the cgroup that got the slot next. So the
//! agent frees only the slots of deleted cgroups, and a thread that slept meanwhile looks its slot up again.

mod support;

use std::ffi::CString;
use std::fs;
use std::mem::zeroed;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use aya::maps::{HashMap, Map, MapData};
use support::agent::{self, Agent, Options};
use support::bpf::Objects;
use support::cgroup::Cgroup;
use support::mounts::{self, mount};
use support::process::{self, Load, cpus};
use support::totals::Totals;
use support::{figure, until};
use sysprobe_common::slot::{FIRST_FREE, UNKNOWN};

/// The cgroups of one test would take the slots that the other waits for.
static SLOTS_OF_HOST: Mutex<()> = Mutex::new(());

/// How long the load runs whose time could be charged to another cgroup.
const WORK: Duration = Duration::from_millis(200);

/// An agent's slots by cgroup.
struct Slots(HashMap<MapData, u64, u32>);

impl Slots {
    fn of(agent: &Agent) -> Self {
        let data = Objects::of_process(agent.pid()).map("SCHED_SLOTS");
        Self(HashMap::try_from(Map::HashMap(data)).expect("slots by cgroup"))
    }

    fn of_cgroup(&self, id: u64) -> Option<u32> {
        self.0.get(&id, 0).ok().filter(|slot| *slot != UNKNOWN)
    }
}

/// A cgroup that has a slot, and a process that sleeps in it.
fn idle(name: &str) -> (Load, Cgroup) {
    let cgroup = Cgroup::new(name);
    let body = || {
        process::use_cpu(Duration::from_millis(1));
        thread::sleep(Duration::MAX);
    };
    let load = Load::running(&cgroup, &cpus(), body);
    until("it sleeps", || (threads_asleep(load.pid) == 1).then_some(()));
    until("it has left its CPU", || cgroup.usage_at_rest());
    (load, cgroup)
}

/// Starts idle cgroups until one has this slot; others may take it first.
fn idle_in_slot(slots: &Slots, slot: u32) -> ((Load, Cgroup), Vec<(Load, Cgroup)>) {
    let mut others = Vec::new();
    let mut number = 0;
    let found = until("an idle cgroup gets the freed slot", || {
        number += 1;
        let new = idle(&format!("idle-{number}"));
        let got = until("it has a slot", || slots.of_cgroup(new.1.id()));
        if got == slot {
            return Some(new);
        }
        others.push(new);
        None
    });
    (found, others)
}

/// Sends the calling thread to sleep until its process gets `SIGUSR1`, which every thread must block.
fn sleep_until_signalled() {
    // SAFETY: plain integers, for which zero is a value; the addresses are of live values.
    unsafe {
        let mut set = zeroed::<libc::sigset_t>();
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        libc::sigwait(&raw const set, &mut 0);
    }
}

fn block_signal() {
    // SAFETY: as above.
    unsafe {
        let mut set = zeroed::<libc::sigset_t>();
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

fn threads_asleep(pid: i32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the load runs");
    let stat = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat")).unwrap_or_default();
    let is_asleep = |stat: &String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'));
    tasks.filter_map(Result::ok).map(stat).filter(is_asleep).count()
}

/// The kernel tells a move of a process by its first thread alone. The other one sleeps during the move, the
/// deletion of its old cgroup, and the creation of the cgroup that gets the slot.
#[test]
fn a_thread_that_slept_through_its_move_is_charged_where_it_wakes() {
    let _turn = SLOTS_OF_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = Agent::configured(&agent::with_only(&["sched"]));
    let slots = Slots::of(&agent);
    let (old, new) = (Cgroup::new("old"), Cgroup::new("new"));
    let load = Load::running(&old, &cpus(), || {
        block_signal();
        let other = thread::spawn(|| {
            process::use_cpu(Duration::from_millis(1));
            sleep_until_signalled();
            // Its first time slice is over soon.
            process::use_cpu(Duration::from_micros(100));
            thread::sleep(Duration::from_millis(1));
            process::use_cpu(WORK);
        });
        drop(other.join());
    });
    until("both threads sleep", || (threads_asleep(load.pid) == 2).then_some(()));
    let id = old.id();
    let slot = until("they have a slot", || slots.of_cgroup(id));
    new.adopt(load.pid);
    old.remove();
    until("the slot is free", || slots.of_cgroup(id).is_none().then_some(()));
    let ((sleeper, cgroup), _others) = idle_in_slot(&slots, slot);
    let on_cpu = |name: &str| Totals::of_workload(&agent.snapshot(), name).on_cpu_ns;
    let (before, start) = (on_cpu(&cgroup.name), sleeper.totals().on_cpu_ns);
    // SAFETY: a signal to a child that has not been reaped.
    assert_eq!(unsafe { libc::kill(load.pid, libc::SIGUSR1) }, 0);
    load.finish();
    let (idle, moved) = (on_cpu(&cgroup.name) - before, on_cpu(&new.name));
    figure(&format!("slot {slot}: {moved} ns are charged where it woke, {idle} ns to the idle cgroup"));
    assert_eq!(idle, sleeper.totals().on_cpu_ns - start, "charged to the cgroup that has the slot now");
    assert!(u128::from(moved) >= WORK.as_nanos(), "{moved} of {WORK:?}");
}

/// Makes a command see `part` of the key hierarchy at `point`.
fn show_only(command: &mut Command, part: &Path, point: &Path) {
    let [part, point] =
        [part, point].map(|path| CString::new(path.as_os_str().as_bytes()).expect("no NUL in a path"));
    let enter = move || {
        mounts::separate()?;
        mount(&part, &point, None, libc::MS_BIND, c"")
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(enter) };
}

/// As on a node that is itself a container, where other containers of the host share the kernel.
#[test]
fn a_cgroup_that_the_agent_cannot_see_keeps_its_slot_while_it_exists() {
    let _turn = SLOTS_OF_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    let (part, hidden) = (Cgroup::new("part"), Cgroup::new("hidden"));
    let root = directory.path().to_str().expect("UTF-8");
    let config = agent::with_only(&["sched", "cgroup"]);
    let options = Options { config: &config, arguments: &["--cgroup-root", root], ..Options::default() };
    let agent = Agent::prepared(options, |command| show_only(command, part.directory(), directory.path()));
    let slots = Slots::of(&agent);
    let on_cpu = |name: &str| Totals::of_workload(&agent.snapshot(), name).on_cpu_ns;
    let before = on_cpu("unknown");
    let load = Load::running(&hidden, &cpus(), process::spin);
    // Each snapshot charges what the slots hold, and looks for cgroups that no longer exist.
    let (ran, unknown) = until("it has run", || {
        let ran = load.fresh_on_cpu_ns();
        let unknown = on_cpu("unknown") - before;
        (Duration::from_nanos(ran) >= WORK).then_some((ran, unknown))
    });
    assert!(unknown >= ran, "{unknown} of {ran} ns count as unknown");
    let slot = slots.of_cgroup(hidden.id()).expect("it keeps its slot");
    assert!(slot >= FIRST_FREE);
    let (_idle, visible) = idle("part/visible");
    until("its name is below the part", || (on_cpu("/visible") > 0).then_some(()));
    let (before, start) = (on_cpu("/visible"), load.fresh_on_cpu_ns());
    until("the hidden one has run", || {
        let ran = Duration::from_nanos(load.fresh_on_cpu_ns() - start);
        (ran >= WORK).then_some(())
    });
    let charged = on_cpu("/visible") - before;
    figure(&format!("{charged} ns of a hidden cgroup's {WORK:?} are charged to a visible one"));
    assert_eq!(charged, 0, "{} sleeps", visible.name);

    let id = hidden.id();
    drop(load);
    hidden.remove();
    until("its slot is free", || {
        agent.snapshot();
        slots.of_cgroup(id).is_none().then_some(())
    });
}
