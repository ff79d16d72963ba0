//! Events that the kernel hides from all programs.
//!
//! The kernels of some sandboxes run no program while a thread of process 1 is current: that process is the
//! sandbox's supervisor. If a softirq interrupts it, whatever the softirq does goes unseen, too, and no loss
//! is counted. A supervisor that runs for a few milliseconds each second hides about one event in a thousand.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{self, Command};

use aya::maps::{HashMap, MapData};
use sysprobe_agent::bpf::{Loaded, Loader};
use sysprobe_agent::config::Config;
use sysprobe_agent::host::Facts;
use sysprobe_agent::probe::{AttachMode, Hook, Object, Program, ProgramSet};

use super::totals::Totals;
use super::{figure, until};

const OBJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/ebpf/switches.o");
const SUPERVISOR: u32 = 1;
/// Fewer switches could be those between two readings.
const ENOUGH: u64 = 10;
const ATTEMPTS: usize = 3;

/// Runs a test that counts each event of softirqs. On a kernel that hides events, the test is repeated when
/// it fails. An error of the agent's own makes each attempt fail, and on any other kernel the first failure
/// counts.
pub(crate) fn count_all(test: impl Fn()) {
    for attempt in 1..ATTEMPTS {
        let Err(failure) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        if !hides_supervisor() {
            resume_unwind(failure);
        }
        figure(&format!("attempt {attempt} failed on a kernel that hides events of process {SUPERVISOR}"));
    }
    test();
}

/// Whether programs see other processes, but not process 1.
pub(crate) fn hides_supervisor() -> bool {
    let (myself, switches) = (process::id(), Switches::count(&[SUPERVISOR, process::id()]));
    let (before, seen_before) = (kernel(SUPERVISOR), switches.seen());
    let seen = until("process 1 runs", || {
        leave_orphan();
        (kernel(SUPERVISOR) >= before + ENOUGH).then(|| switches.seen())
    });
    let grown = |process| seen[&process] - seen_before[&process];
    figure(&format!("switches seen: {} of process 1, {} of this one", grown(SUPERVISOR), grown(myself)));
    assert!(grown(myself) > 0, "programs see this process");
    grown(SUPERVISOR) == 0
}

/// Lets process 1 run: it has to reap a process whose parent has gone.
fn leave_orphan() {
    let status = Command::new("sh").args(["-c", "true &"]).status().expect("a shell starts");
    assert!(status.success(), "{status}");
}

/// How often the kernel says that a process has left a CPU.
fn kernel(process: u32) -> u64 {
    let totals = Totals::of_process(process.try_into().expect("small"));
    totals.voluntary + totals.involuntary
}

/// How often programs have seen processes leave a CPU.
struct Switches {
    counts: HashMap<MapData, u32, u64>,
    _loaded: Loaded,
}

impl Switches {
    fn count(processes: &[u32]) -> Self {
        let object = fs::read(OBJECT).unwrap_or_else(|error| panic!("{OBJECT}: {error}"));
        let set: &'static ProgramSet = Box::leak(Box::new(ProgramSet {
            mode: AttachMode::RawTp,
            object: Object { file: "switches.o", bytes: object.leak(), maps: &[] },
            programs: const { &[Program::new("count_switches", Hook::RawTp("sched_switch"), "")] },
            members: &[],
            needs: &[],
        }));
        let btf = Facts::collect(&Config::default()).btf_path;
        let mut loaded = Loader::new(Path::new(&btf)).load(set, &[], &[]).expect("the kernel takes it");
        let mut counts: HashMap<MapData, u32, u64> = loaded.take_map("SWITCHES").expect("it is there");
        for process in processes {
            counts.insert(process, 0, 0).expect("there is room");
        }
        loaded.attach().expect("the kernel attaches it");
        Self { counts, _loaded: loaded }
    }

    fn seen(&self) -> BTreeMap<u32, u64> {
        self.counts.iter().map(|entry| entry.expect("it can be read")).collect()
    }
}
