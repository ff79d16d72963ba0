//! Events that the kernel hides from all programs.
//!
//! The kernels of some sandboxes run no program while a thread of process 1 is current: that process is the
//! sandbox's supervisor. If a softirq interrupts it, whatever the softirq does goes unseen, too, and no loss
//! is counted. Softirqs handle received packets and the ends of block requests. The forks of process 1 are
//! unseen, too. A supervisor that runs for a few milliseconds each second hides about one event in a
//! thousand.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{self, Command};
use std::time::Duration;

use aya::maps::{HashMap, MapData};
use sysprobe_agent::bpf::Loaded;
use sysprobe_agent::probe::{Hook, Program};

use super::bpf::load_for_test;
use super::totals::Totals;
use super::{eventually_within, figure, left_out};

const SUPERVISOR: u32 = 1;
/// The counts of the kernel and of the program are not read at the same moment, so a few switches may be in
/// one of them only.
const ENOUGH: u64 = 10;
/// A supervisor runs at least once a second. Any other process 1 has to reap orphans.
const LONG_ENOUGH: Duration = Duration::from_secs(20);
const ATTEMPTS: usize = 3;

/// Runs a test that counts each event. On a kernel that hides events, the test is repeated when it fails: an
/// error of the agent's that occurs in each run makes each attempt fail. On any other kernel, the first
/// failure counts.
pub(crate) fn count_all(test: impl Fn()) {
    for _ in 1..ATTEMPTS {
        let Err(failure) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        if !hides_supervisor() {
            resume_unwind(failure);
        }
        left_out("a failed count, which is repeated", "this kernel hides events from programs");
    }
    test();
}

/// Whether it is proven that programs see other processes, but not process 1.
pub(crate) fn hides_supervisor() -> bool {
    let switches = Switches::count(&[SUPERVISOR, process::id()]);
    let before = kernel(SUPERVISOR);
    // Process 1 may not run at all if another ancestor takes the orphans.
    let runs = eventually_within(LONG_ENOUGH, || {
        leave_orphan();
        kernel(SUPERVISOR) >= before + ENOUGH
    });
    let [supervisor, myself] = [SUPERVISOR, process::id()].map(|process| switches.seen(process));
    figure(&format!("switches seen: {supervisor} of process 1, {myself} of this one"));
    // In a PID namespace, the program knows this process by another number.
    runs && myself > 0 && supervisor == 0
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
        let programs = const { &[Program::new("count_switches", Hook::RawTp("sched_switch"), "")] };
        let mut loaded = load_for_test("switches.o", programs);
        let mut counts: HashMap<MapData, u32, u64> = loaded.take_map("SWITCHES").expect("it is there");
        for process in processes {
            counts.insert(process, 0, 0).expect("there is room");
        }
        loaded.attach().expect("the kernel attaches it");
        Self { counts, _loaded: loaded }
    }

    /// Since this began.
    fn seen(&self, process: u32) -> u64 {
        self.counts.get(&process, 0).expect("it is there")
    }
}
