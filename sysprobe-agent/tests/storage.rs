//! Socket and task storage is charged to the agent's memory, and a shortage must affect only the agent. At
//! the agent's limit, programs that connect, accept, fork and open notice nothing, and the agent reports what
//! it could not store.

mod storage {
    pub(crate) mod loads;
}
mod support;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use storage::loads::{Counts, Kind, Outcome, is_full};
use support::agent::{Agent, Options};
use support::cgroup::Cgroup;
use support::network::Namespace;
use support::{command, figure, until};
use sysprobe_agent::snapshot::Snapshot;

/// Memory beyond the agent's use: less than its reserve, so there is no room for one more socket.
const ROOM: u64 = 8 << 20;

/// One test at a time: until an agent notices that its limit was lowered, it has the grants from before, and
/// the sockets of another test could make it exceed the new limit.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    // A test that failed has cleaned up too.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An agent in a memory cgroup of its own.
fn agent_in(group: &Cgroup, config: &str) -> Agent {
    // Pages of a file are charged to the cgroup that reads them first. Near its limit, the agent would
    // otherwise lose pages of its own program again and again.
    fs::read(command::program()).expect("the agent's program");
    let entrances: Vec<PathBuf> = group.entrances();
    Agent::prepared(Options { config, ..Options::default() }, |command| {
        let enter = move || entrances.iter().try_for_each(|entrance| fs::write(entrance, "0"));
        // SAFETY: the child has one thread, and opens and writes files only.
        unsafe { command.pre_exec(enter) };
    })
}

/// The number of entries that were refused because the budget had no room.
fn refused(snapshot: &Snapshot, domain: &str) -> u64 {
    let losses = snapshot.agent.lost_updates.iter();
    let mut own = losses.filter(|loss| loss.domain == domain && loss.reason == "storage_budget");
    own.next().unwrap_or_else(|| panic!("{domain} says nothing of its budget")).count
}

fn kept(snapshot: &Snapshot, domain: &str) -> u64 {
    let mut storages = snapshot.agent.storages.iter();
    storages.find(|storage| storage.domain == domain).map_or(0, |storage| storage.bytes)
}

/// Runs all loads, one after the other, in their own network namespace and cgroup.
fn run(name: &str, counts: Counts) -> [Outcome; 3] {
    let (namespace, cgroup) = (Namespace::new(name), Cgroup::new(name));
    [Kind::Connect, Kind::Fork, Kind::Open].map(|kind| {
        let outcome = storage::loads::run(kind, counts, &cgroup, &namespace);
        figure(&format!("{name}, {kind:?}: {outcome}"));
        outcome
    })
}

/// The group's memory without file pages that the kernel would reclaim first, as the agent counts it.
fn used(group: &Cgroup) -> u64 {
    let memory = group.memory();
    memory.usage - memory.inactive_file
}

/// Sets a limit and waits until the agent, which checks its limits once a second, has seen it and grants or
/// refuses storage accordingly.
fn limit(agent: &Agent, group: &Cgroup, bytes: u64, has_room: bool) {
    group.set_memory_limit(bytes);
    let name = format!("probe-{}", agent.pid());
    let (cgroup, namespace) = (Cgroup::new(&name), Namespace::new(&name));
    let counts = Counts { connections: 0, forks: 10, opens: 0 };
    until("the agent has seen its limit", || {
        let before = refused(&agent.snapshot(), "sched");
        storage::loads::run(Kind::Fork, counts, &cgroup, &namespace);
        let is_refused = refused(&agent.snapshot(), "sched") > before;
        (is_refused != has_room).then_some(())
    });
}

#[test]
fn an_agent_at_its_memory_limit_fails_no_connection_fork_or_open() {
    let _turn = turn();
    let counts = Counts::of_environment();
    let plain = run("plain", counts);
    let group = Cgroup::with_memory("storage");
    let mut agent = agent_in(&group, "");
    agent.snapshot();
    // If its use fell after the limit is set, there would be room.
    until("the memory that it uses stays the same", || {
        let before = used(&group);
        thread::sleep(Duration::from_secs(2));
        (used(&group).abs_diff(before) < 1 << 20).then_some(())
    });
    limit(&agent, &group, used(&group) + ROOM, false);
    let limited = run("limited", counts);
    for (plain, limited) in plain.iter().zip(&limited) {
        assert_eq!((plain.failures, plain.listen_drops), (0, 0), "the load fails by itself: {plain}");
        assert_eq!((limited.failures, limited.listen_drops), (0, 0), "with the agent: {limited}");
        assert_eq!(plain.done, limited.done);
    }
    agent.assert_running();
    let snapshot = agent.snapshot();
    let refused = ["tcp", "rxpath", "sched"].map(|domain| refused(&snapshot, domain));
    figure(&format!("refused by tcp, rxpath and sched: {refused:?}; {:?}", group.memory()));
    // Both ends of each connection, and each process.
    assert!(refused[0] >= 2 * counts.connections, "{refused:?}");
    assert!(refused[2] >= counts.forks, "{refused:?}");
    assert_eq!(group.memory().oom_kills, 0);
}

/// An agent with its memory limit. It needs more memory to start than later. The storage budget must be known
/// before the first socket is created, because all sockets may be created between two checks of the agent.
fn limited(group: &Cgroup) -> (Agent, u64) {
    /// The chart's default limit.
    const LIMIT: u64 = 256 << 20;
    /// An agent leaves an eighth of its limit free, at least this much.
    const RESERVE: u64 = 16 << 20;
    /// Enough for a part of the sockets of the short test.
    const STORAGE: u64 = 6 << 20;
    if is_full() {
        group.set_memory_limit(LIMIT);
        let agent = agent_in(group, "");
        agent.snapshot();
        return (agent, LIMIT);
    }
    let agent = agent_in(group, "");
    agent.snapshot();
    limit(&agent, group, used(group) + ROOM, false);
    let bytes = used(group) + RESERVE + STORAGE;
    limit(&agent, group, bytes, true);
    (agent, bytes)
}

#[test]
fn storage_ends_before_the_memory_limit_does_and_tells_how_much_there_is() {
    let _turn = turn();
    let group = Cgroup::with_memory("bounded");
    let (mut agent, limit) = limited(&group);
    let before = group.memory();
    let (namespace, cgroup) = (Namespace::new("bounded"), Cgroup::new("bounded-load"));
    let connections = storage::loads::that_fit(if is_full() { 200_000 } else { 20_000 });
    let counts = Counts { connections, forks: 0, opens: 0 };
    let held = storage::loads::hold(counts, &cgroup, &namespace);
    let (snapshot, after) = (agent.snapshot(), group.memory());
    agent.assert_running();
    let kept: u64 = ["tcp", "net", "rxpath"].map(|domain| kept(&snapshot, domain)).iter().sum();
    let grown = after.usage.saturating_sub(before.usage);
    let refused = ["tcp", "rxpath"].map(|domain| refused(&snapshot, domain));
    figure(&format!(
        "{} sockets: {kept} bytes kept by the metric, usage has grown by {grown} to {} of {limit}; refused \
         by tcp and rxpath: {refused:?}",
        2 * connections,
        after.usage,
    ));
    assert!(kept > 0 && refused[0] > 0, "some found room and some did not");
    assert!(after.usage + (4 << 20) < limit, "the limit was come near to");
    assert_eq!(after.oom_kills, 0);
    drop(held);
}
