//! Conditions under which the kernel skips runs of kprobe programs: other BPF work on the same CPU. An
//! interrupt during that work frees ended tasks (RCU) and hits the agent's probe on `free_task`.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use aya::maps::Array;
use sysprobe_agent::bpf::Loader;
use sysprobe_agent::config::Config;
use sysprobe_agent::host::Facts;
use sysprobe_agent::plan::{Decision, Plan};
use sysprobe_agent::probe::{AttachMode, Hook, Program, ProgramSet, program_set};

use crate::support::cgroup::Cgroup;
use crate::support::process::{self, Load};

/// Repeats `work` on one CPU, on which children end at the same time, until `seen` returns.
pub(crate) fn beside(cpu: usize, mut work: impl FnMut() + Send, seen: impl FnOnce()) {
    let cgroup = Cgroup::new("disturbance");
    let _children = Load::running(&cgroup, &[cpu], || {
        loop {
            process::in_child(|| ());
        }
    });
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            process::move_this_thread_to(cpu);
            while !done.load(Ordering::Relaxed) {
                work();
            }
        });
        // Runs even if `seen` panics, so that the thread ends.
        let _end = Defer(|| done.store(true, Ordering::Relaxed));
        seen();
    });
}

struct Defer<F: FnMut()>(F);

impl<F: FnMut()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Writes a large map value. Meanwhile, the kernel runs no kprobe program on this CPU.
pub(crate) fn map_writer() -> impl FnMut() + Send {
    const WORDS: usize = 64 * 1024;
    let mut map = Array::<_, [u64; WORDS]>::create(1, 0).expect("a map");
    let value: Box<[u64; WORDS]> = vec![0; WORDS].try_into().expect("as many");
    move || map.set(0, value.as_ref(), 0).expect("it is there")
}

/// Calls a function with its own kprobe. The kernel skips all other kprobes while it handles that one, so it
/// runs the longest program.
pub(crate) fn probed_caller() -> impl FnMut() + Send {
    const PROGRAM: Program = Program::new("sched_switch_kp", Hook::Kprobe("vfs_read"), "");
    let config = Config { attach: Some(AttachMode::Kprobe), ..Config::default() };
    let facts = Facts::collect(&config);
    let plan = Plan::new(&facts, &config);
    let Some(Decision::On(candidates)) = plan.decision("sched") else {
        panic!("{:?}", plan.decision("sched"))
    };
    let object = program_set("sched", AttachMode::Kprobe).expect("in the table").object;
    let set = ProgramSet { mode: AttachMode::Kprobe, object, programs: &[PROGRAM], members: &[], needs: &[] };
    let loader = Loader::new(&facts.btf_path);
    let loaded =
        loader.load(Box::leak(Box::new(set)), &candidates[0].globals, &[("SCHED_TASKS", plan.tasks)]);
    let mut loaded = loaded.expect("the kernel takes it");
    loaded.attach().expect("there is such a function");
    let mut file = File::open("/dev/null").expect("it is everywhere");
    move || {
        let _attached = &loaded;
        assert_eq!(file.read(&mut [0]).expect("it can be read"), 0);
    }
}
