//! Cgroups that come and go: the agent sees every creation and removal, counts what ran in them, and keeps
//! nothing.
//!
//! Two tests have counts that others would disturb, so each test takes [`HOST`] before it creates a cgroup.

mod support;

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use support::agent::Agent;
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::samples::Samples;
use support::totals::{Totals, lost, workload};
use support::{figure, until, within};
use sysprobe_agent::snapshot::Snapshot;

/// The right to create cgroups.
static HOST: Mutex<()> = Mutex::new(());

fn host() -> MutexGuard<'static, ()> {
    // A test that failed has cleaned up too.
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn heard(snapshot: &Snapshot) -> (u64, u64) {
    (snapshot.agent.cgroups_born, snapshot.agent.cgroups_died)
}

fn slots_in_use(samples: &Samples) -> f64 {
    samples.get("sysprobe_agent_map_entries", &[("map", "sched_slots")])
}

/// The number of cgroups that exist at a time, as on a typical node.
const AT_ONCE: usize = 20;

/// Creates and removes `count` cgroups; one of each batch runs a process. Returns the names and CPU times of
/// those.
fn churn(attempt: u32, count: usize) -> Vec<(String, u64)> {
    let name = |at: usize| format!("churn-{attempt}-{at}");
    let batch = |first| {
        let _others: Vec<_> = (1..AT_ONCE).map(|at| Cgroup::new(&name(first + at))).collect();
        short_life(&name(first))
    };
    (0..count).step_by(AT_ONCE).map(batch).collect()
}

/// The CPU time that the agent has charged to these cgroups, and the time that they used.
fn charged(snapshot: &Snapshot, lives: &[(String, u64)]) -> (u64, u64) {
    let ours = lives.iter().map(|(name, _)| Totals::of_workload(snapshot, name).on_cpu_ns);
    (ours.sum(), lives.iter().map(|(_, used)| used).sum())
}

/// Both sides add up the same slices, except for the one in which a process enters the cgroup. The kernel
/// charges its time since the last tick to the cgroup that it enters, the agent to the one that it leaves. A
/// process here runs for some milliseconds, of which that is a small part.
const FIRST_SLICE: f64 = 0.1;

#[test]
fn a_thousand_cgroups_in_ten_seconds_are_all_heard() {
    const COUNT: u64 = 1000;
    let _host = host();
    // However long it takes, none is forgotten meanwhile.
    let agent = Agent::configured("grace_seconds = 3600");
    // Another process may create cgroups at the same time, which can only increase the counts. One of three
    // attempts without such a process is enough.
    for attempt in 1..=3 {
        let (before, start) = (agent.snapshot(), Instant::now());
        let lives = churn(attempt, usize::try_from(COUNT).expect("small"));
        let took = start.elapsed();
        let after = agent.snapshot();
        let (born, died) = (heard(&after).0 - heard(&before).0, heard(&after).1 - heard(&before).1);
        figure(&format!("churn: {born} born and {died} died in {took:?}"));
        assert!(born >= COUNT && died >= COUNT, "{born} born, {died} died of {COUNT}");
        assert_eq!(lost(&after, "cgroup", "ring_buffer_full"), lost(&before, "cgroup", "ring_buffer_full"));
        let (ours, used) = charged(&after, &lives);
        assert!(within(FIRST_SLICE, ours, used), "{ours} ns of {used} ns were charged");
        if (born, died) == (COUNT, COUNT) {
            return;
        }
        assert!(attempt < 3, "{born} born, {died} died: {COUNT} were made");
    }
}

/// Creates far more events than the ring buffer can hold while the agent cannot read them.
#[test]
fn events_that_found_no_room_are_counted_and_made_good() {
    /// The ring has 512 KiB and an event at least 64 bytes: 8192 events at most. Each cgroup makes two.
    const COUNT: u64 = 5000;
    let _host = host();
    let agent = Agent::configured("grace_seconds = 2");
    let stays = Cgroup::new("stays");
    let load = Load::stopped(&stays, &cpus(), process::sleep_often);
    let before = agent.snapshot();
    agent.pause();
    for at in 0..COUNT {
        Cgroup::new(&format!("unheard-{at}"));
    }
    let late = Cgroup::new("late");
    let unheard = Load::stopped(&late, &cpus(), process::sleep_often);
    agent.resume();
    let after = agent.snapshot();
    let (born, died) = (heard(&after).0 - heard(&before).0, heard(&after).1 - heard(&before).1);
    let missed = lost(&after, "cgroup", "ring_buffer_full") - lost(&before, "cgroup", "ring_buffer_full");
    figure(&format!("unheard: {born} born, {died} died, {missed} missed"));
    assert!(missed > 0, "the ring was full");
    assert!(born + died + missed > 2 * COUNT, "every event was heard or counted: {born} {died} {missed}");
    for load in [&load, &unheard] {
        load.resume();
    }
    until("both are known by their names", || {
        let snapshot = agent.snapshot();
        let both =
            [&stays, &late].iter().all(|cgroup| Totals::of_workload(&snapshot, &cgroup.name).voluntary > 10);
        both.then_some(())
    });
    until("nothing is left of the others", || (!agent.metrics().contains("unheard-")).then_some(()));
}

/// A process that uses some milliseconds of CPU time in a cgroup of its own, and the time that it had there.
///
/// The time before its work is excluded: the process spent it on its way into the cgroup, which takes long on
/// a busy machine, and the kernel charges a part of it to the cgroup.
fn short_life(name: &str) -> (String, u64) {
    let cgroup = Cgroup::new(name);
    let load = Load::stopped(&cgroup, &cpus(), || process::use_cpu(Duration::from_millis(5)));
    let entered = until("the process rests", || cgroup.usage_at_rest());
    load.resume();
    load.finish();
    let used = until("the process has left its CPU", || cgroup.usage_at_rest());
    (cgroup.name.clone(), used - entered)
}

#[test]
fn what_ran_in_short_lived_cgroups_is_counted_and_then_forgotten() {
    let _host = host();
    let agent = Agent::configured("grace_seconds = 5");
    let baseline = slots_in_use(&agent.scrape());
    // Each is queried at once: on a busy machine, the first one's grace period is over when the last one
    // ends.
    let (mut ours, mut used, mut lives) = (0, 0, Vec::new());
    for at in 0..50 {
        let life = short_life(&format!("life-{at}"));
        let (charged, had) = charged(&agent.snapshot(), std::slice::from_ref(&life));
        (ours, used) = (ours + charged, used + had);
        lives.push(life);
    }
    figure(&format!("short lives: agent {ours} ns, kernel {used} ns"));
    assert!(within(FIRST_SLICE, ours, used), "{ours} {used}");
    until("the slots are given back", || (slots_in_use(&agent.scrape()) <= baseline).then_some(()));
    until("their series have gone", || {
        let snapshot = agent.snapshot();
        lives.iter().all(|(name, _)| workload(&snapshot, name).is_none()).then_some(())
    });
    let text = agent.metrics();
    assert!(lives.iter().all(|(name, _)| !text.contains(&format!("\"{name}\""))), "{text}");
}

#[test]
fn a_scrape_in_the_middle_of_a_birth_charges_nobody_else() {
    let _host = host();
    let agent = Agent::start();
    let before = agent.snapshot();
    thread::scope(|scope| {
        let lives = scope.spawn(|| {
            for at in 0..100 {
                short_life(&format!("scraped-{at}"));
            }
        });
        while !lives.is_finished() {
            agent.snapshot();
        }
    });
    let after = agent.snapshot();
    let unknown = Totals::of_workload(&after, "unknown").since(Totals::of_workload(&before, "unknown"));
    figure(&format!("scraped: unknown {unknown:?}"));
    // The agent saw the creation of every cgroup here.
    assert_eq!(unknown, Totals::default(), "charged to `unknown`");
}

/// Few slots, and more busy cgroups than slots.
struct Crowd {
    agent: Agent,
    members: Vec<(Load, Cgroup)>,
}

impl Crowd {
    fn new() -> Self {
        let agent = Agent::configured("slots = 16");
        let members = (0..40).map(|at| {
            let cgroup = Cgroup::new(&format!("crowd-{at}"));
            (Load::stopped(&cgroup, &cpus(), process::sleep_often), cgroup)
        });
        Self { members: members.collect(), agent }
    }

    fn kernel(&self) -> Totals {
        self.members.iter().map(|(load, _)| load.totals()).fold(Totals::default(), Totals::plus)
    }

    /// The totals charged to the members, and to `unknown`.
    fn charged(&self) -> (Totals, Totals) {
        let snapshot = self.agent.snapshot();
        let of = |(_, cgroup): &(Load, Cgroup)| Totals::of_workload(&snapshot, &cgroup.name);
        let known = self.members.iter().map(of).fold(Totals::default(), Totals::plus);
        (known, Totals::of_workload(&snapshot, "unknown"))
    }
}

#[test]
fn without_a_free_slot_time_is_charged_to_unknown_and_said_to_be() {
    let _host = host();
    let crowd = Crowd::new();
    let (before, charged_before) = (crowd.kernel(), crowd.charged());
    let lost_before = lost(&crowd.agent.snapshot(), "sched", "no_free_slot");
    crowd.members.iter().for_each(|(load, _)| load.resume());
    until("all have run", || {
        let all = crowd.members.iter().all(|(load, _)| load.totals().voluntary > 50);
        all.then_some(())
    });
    crowd.members.iter().for_each(|(load, _)| load.freeze());
    let truth = crowd.kernel().since(before);
    let (known, unknown) = crowd.charged();
    let (known, unknown) = (known.since(charged_before.0), unknown.since(charged_before.1));
    figure(&format!("crowd: kernel {truth:?}, known {known:?}, unknown {unknown:?}"));
    assert!(unknown.on_cpu_ns > 0 && known.on_cpu_ns > 0, "some have a slot and some have none");
    // Nothing is lost. Other cgroups of this machine may also be charged to `unknown`, which only adds.
    let charged = known.plus(unknown);
    assert!(
        charged.on_cpu_ns >= truth.on_cpu_ns && charged.arrivals >= truth.arrivals,
        "{charged:?} {truth:?}"
    );
    assert!(charged.wait_ns >= truth.wait_ns, "{charged:?} {truth:?}");
    assert!(lost(&crowd.agent.snapshot(), "sched", "no_free_slot") > lost_before);

    let Crowd { agent, members } = crowd;
    drop(members);
    until("a new cgroup gets a slot", || {
        let (name, used) = short_life("late");
        let ours = Totals::of_workload(&agent.snapshot(), &name).on_cpu_ns;
        (ours > used / 2).then_some(())
    });
}

/// The kernel reuses memory: a task's cgroup set (`css_set`) may have the same address as one of another
/// cgroup that the task was in before it slept. With this many tasks, some of them hit the case every few
/// rounds.
#[test]
fn a_process_that_is_moved_twice_in_its_sleep_is_charged_where_it_wakes() {
    const PROCESSES: usize = 64;
    let _host = host();
    let agent = Agent::start();
    let make = |name: &str| (0..PROCESSES).map(|at| Cgroup::new(&format!("{name}-{at}"))).collect::<Vec<_>>();
    for round in 0..4 {
        let (first, between) = (make(&format!("first-{round}")), Cgroup::new(&format!("between-{round}")));
        let body = || process::spin_for(Duration::from_millis(3));
        let loads: Vec<_> = first.iter().map(|cgroup| Load::stopped(cgroup, &cpus(), body)).collect();
        for load in &loads {
            between.adopt(load.pid);
        }
        // The kernel frees the old sets after an RCU grace period, whose end is not visible.
        thread::sleep(Duration::from_millis(300));
        let last = make(&format!("last-{round}"));
        for (load, cgroup) in loads.iter().zip(&last) {
            cgroup.adopt(load.pid);
        }
        let before = agent.snapshot();
        loads.iter().for_each(Load::resume);
        loads.into_iter().for_each(Load::finish);
        let after = agent.snapshot();
        let gained = |cgroup: &Cgroup| {
            Totals::of_workload(&after, &cgroup.name)
                .since(Totals::of_workload(&before, &cgroup.name))
                .on_cpu_ns
        };
        let wrong = first.iter().filter(|cgroup| gained(cgroup) > 0).count();
        let right = last.iter().filter(|cgroup| gained(cgroup) > 0).count();
        figure(&format!("moved twice, round {round}: {right} charged right, {wrong} wrong"));
        assert_eq!((right, wrong), (PROCESSES, 0));
    }
}

/// Nested cgroups with the longest possible names: the path of the deepest exceeds the limit.
struct Chain {
    deepest: OwnedFd,
    name: CString,
    levels: usize,
    top: Cgroup,
}

impl Chain {
    fn make(levels: usize) -> Self {
        let top = Cgroup::new("chain.service");
        let mut chain = Self {
            deepest: File::open(top.directory()).expect("there").into(),
            name: CString::new("n".repeat(255)).expect("no zero"),
            levels: 0,
            top,
        };
        for _ in 0..levels {
            // SAFETY: an open directory and a name that ends.
            let made = unsafe { libc::mkdirat(chain.deepest.as_raw_fd(), chain.name.as_ptr(), 0o755) };
            assert_eq!(made, 0, "level {}: {}", chain.levels, std::io::Error::last_os_error());
            chain.levels += 1;
            chain.deepest = chain.open(&chain.name);
        }
        chain
    }

    fn open(&self, name: &CString) -> OwnedFd {
        // SAFETY: as above.
        let opened = unsafe { libc::openat(self.deepest.as_raw_fd(), name.as_ptr(), libc::O_DIRECTORY) };
        assert!(opened >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: it was opened above and belongs to no other.
        unsafe { OwnedFd::from_raw_fd(opened) }
    }

    /// Moves a process into the deepest cgroup.
    fn adopt(&self, pid: i32) {
        let entrance = format!("/proc/self/fd/{}/cgroup.procs", self.deepest.as_raw_fd());
        fs::write(entrance, pid.to_string()).expect("the process can be moved");
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for _ in 0..self.levels {
            self.deepest = self.open(&c"..".to_owned());
            // SAFETY: as above.
            unsafe { libc::unlinkat(self.deepest.as_raw_fd(), self.name.as_ptr(), libc::AT_REMOVEDIR) };
        }
    }
}

/// The agent's resident memory, in bytes.
fn resident(agent: &Agent) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn nested_cgroups_without_end_take_bounded_memory_and_are_charged_to_what_they_are_in() {
    const LEVELS: usize = 1000;
    const RESIDENT_MAX: u64 = 12 << 20;
    /// The CPU time of the process in the deepest cgroup, in nanoseconds.
    const USED: u64 = 100_000_000;
    let _host = host();
    let agent = Agent::start();
    let before = resident(&agent);
    let (heard_before, chain) = (heard(&agent.snapshot()).0, Chain::make(LEVELS));
    let snapshot = until("all were heard of", || {
        let snapshot = agent.snapshot();
        (heard(&snapshot).0 - heard_before > LEVELS as u64).then_some(snapshot)
    });
    let grown = resident(&agent).saturating_sub(before);
    figure(&format!("chain: {LEVELS} nested cgroups took {} KiB", grown >> 10));
    assert!(grown < RESIDENT_MAX, "{grown} bytes");
    assert!(lost(&snapshot, "cgroup", "path_too_long") > LEVELS as u64 * 9 / 10);

    let name = chain.top.name[1..].to_owned();
    let load = Load::stopped(&chain.top, &cpus(), || process::use_cpu(Duration::from_nanos(USED)));
    chain.adopt(load.pid);
    load.resume();
    load.finish();
    let ours = until("the deepest is charged to the unit", || {
        let ours = Totals::of_workload(&agent.snapshot(), &name).on_cpu_ns;
        (ours > USED * 9 / 10).then_some(ours)
    });
    figure(&format!("chain: {} ms of the deepest were charged to the unit", ours / 1_000_000));

    // An agent that starts later finds the cgroups when it walks the hierarchy.
    let late = Agent::start();
    assert!(lost(&late.snapshot(), "cgroup", "path_too_long") > LEVELS as u64 * 9 / 10);
    let log = late.log();
    assert!(!log.contains("cgroup directories could not be read"), "{log}");
}
