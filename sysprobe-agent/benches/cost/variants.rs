//! What is measured: the product as it ships, and the alternatives of `bench.o`.

use anyhow::{Context, Result, bail};
use sysprobe_agent::bpf::{Loaded, Loader, ProgramStatistics, Running as _};
use sysprobe_agent::config::Config;
use sysprobe_agent::domain::sched::Sched;
use sysprobe_agent::domain::traits::Start as _;
use sysprobe_agent::host::Facts;
use sysprobe_agent::plan::{Candidate, CpuShards, Decision, Plan};
use sysprobe_agent::probe::{self, AttachMode, Hook, Object, Program, ProgramSet};

pub(crate) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("SYSPROBE_EBPF"), "/bench.o"));

/// Waiting tasks that a hash by pid has room for.
pub(crate) const TASKS: u32 = 32_768;

const SWITCH: Hook = Hook::TpBtf("sched_switch");
const WAKEUP: Hook = Hook::TpBtf("sched_wakeup");
const WAKEUP_NEW: Hook = Hook::TpBtf("sched_wakeup_new");
const SEED: Program = program("bench_seed", Hook::TaskIterator);

const fn program(name: &'static str, hook: Hook) -> Program {
    Program::new(name, hook, "")
}

const fn probe(programs: &'static [Program]) -> ProgramSet {
    let object = Object { file: "bench.o", bytes: OBJECT, maps: &[] };
    ProgramSet { mode: AttachMode::TpBtf, object, programs, members: &[], needs: &[] }
}

pub(crate) static EMPTY: ProgramSet =
    probe(&[program("bench_empty_sw", SWITCH), program("bench_empty_wk", WAKEUP)]);
/// The least that the product's hooks could cost.
pub(crate) static EMPTY_SWITCH: ProgramSet = probe(&[program("bench_empty_sw", SWITCH)]);
static HASH_BY_PID: ProgramSet = probe(&[
    program("bench_hash_wk", WAKEUP),
    program("bench_hash_new", WAKEUP_NEW),
    program("bench_hash_sw", SWITCH),
]);
static TASK_STAMPS: ProgramSet = probe(&[
    SEED,
    program("bench_tls_wk", WAKEUP),
    program("bench_tls_new", WAKEUP_NEW),
    program("bench_tls_sw", SWITCH),
]);
static INFO: ProgramSet = probe(&[SEED, program("bench_info", SWITCH)]);
static HASH: ProgramSet = probe(&[SEED, program("bench_hash", SWITCH)]);
static WALK: ProgramSet = probe(&[SEED, program("bench_walk", SWITCH)]);
static PCPU_HASH: ProgramSet = probe(&[SEED, program("bench_pcpu_hash", SWITCH)]);
static PCPU: ProgramSet = probe(&[SEED, program("bench_pcpu", SWITCH)]);
static MMAP: ProgramSet = probe(&[SEED, program("bench_mmap", SWITCH)]);

/// One row of the report.
pub(crate) struct Variant {
    pub(crate) title: &'static str,
    kind: Kind,
}

enum Kind {
    /// The shipped object through the shipped loader, with the plan's shards.
    Product,
    /// The same with one shard for all CPUs.
    OneShard,
    Bench(&'static ProgramSet),
}

const fn bench(title: &'static str, set: &'static ProgramSet) -> Variant {
    Variant { title, kind: Kind::Bench(set) }
}

pub(crate) const PRODUCT: Variant =
    Variant { title: "**product: `sched.o`, a shard for each CPU**", kind: Kind::Product };

pub(crate) static VARIANTS: &[Variant] = &[
    PRODUCT,
    Variant { title: "product, CPUs share shards (atomics)", kind: Kind::OneShard },
    bench("wait: hash by pid, time stamps; no cgroup", &HASH_BY_PID),
    bench("wait: task storage, time stamps; no cgroup", &TASK_STAMPS),
    bench("wait: `sched_info` totals; no cgroup", &INFO),
    bench("totals, then hash by cgroup id (atomics)", &HASH),
    bench("totals, then the same, cgroup walked at each switch", &WALK),
    bench("totals, then per-CPU hash by cgroup id", &PCPU_HASH),
    bench("totals, then slot, per-CPU array", &PCPU),
    bench("totals, then slot, mapped array (product's layout)", &MMAP),
];

/// The product's globals that the alternatives have as well.
const WANTED: [&str; 12] = [
    "OFF_TASK_CGROUPS",
    "OFF_TASK_NIVCSW",
    "OFF_TASK_NVCSW",
    "OFF_TASK_ON_CPU_TIME",
    "OFF_TASK_PID",
    "OFF_TASK_RUN_DELAY",
    "OFF_TASK_RUN_COUNT",
    "OFF_CSS_SET_LINK",
    "OFF_CSS_CGROUP",
    "OFF_CGROUP_KN",
    "OFF_KN_ID",
    "CFG_VIA_CONTROLLER",
];

/// What loading needs to know of this machine.
pub(crate) struct Bench {
    pub(crate) facts: Facts,
    pub(crate) config: Config,
    pub(crate) plan: Plan,
    loader: Loader,
    candidate: Candidate,
}

/// Attached programs; dropping it detaches them.
pub(crate) enum Running {
    Product(Box<Sched>),
    Bench(Box<Loaded>),
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let config = Config::default();
        let facts = Facts::collect(&config);
        let plan = Plan::new(&facts, &config);
        let candidate = match plan.decision("sched") {
            Some(Decision::On(candidates)) => candidates[0].clone(),
            Some(Decision::Off(reason)) => bail!("the sched domain would be off: {reason}"),
            None => bail!("the plan has no sched domain"),
        };
        let loader = Loader::new(&facts.btf_path);
        Ok(Self { facts, config, plan, loader, candidate })
    }

    pub(crate) fn start(&self, variant: &Variant) -> Result<Running> {
        match variant.kind {
            Kind::Product => Ok(Running::Product(Box::new(self.product(&self.plan)?))),
            Kind::OneShard => {
                let plan = Plan { cpu_shards: CpuShards::one(), ..self.plan.clone() };
                Ok(Running::Product(Box::new(self.product(&plan)?)))
            }
            Kind::Bench(probe) => Ok(Running::Bench(Box::new(self.bench(probe)?))),
        }
    }

    pub(crate) fn product(&self, plan: &Plan) -> Result<Sched> {
        let set = probe::program_set("sched", self.candidate.mode).context("no such attach mode")?;
        Ok(Sched::start(&self.loader, set, &self.candidate, plan)?)
    }

    pub(crate) fn bench(&self, set: &'static ProgramSet) -> Result<Loaded> {
        let mut globals = self.candidate.globals.clone();
        globals.retain(|(name, _)| WANTED.contains(name));
        // This layout has a shard for each CPU, at its number.
        let shards = self.facts.cpus.possible.next_power_of_two();
        globals.push(("CFG_SHARD_BITS", shards.trailing_zeros()));
        let sizes = sizes(self.plan.slots, shards, self.facts.cpus.possible);
        let mut loaded = self.loader.load(set, &globals, &sizes)?;
        loaded.attach()?;
        Ok(loaded)
    }
}

/// The sizes of the maps of `bench.o`.
pub(crate) fn sizes(slots: u32, shards: u32, cpus: u32) -> [(&'static str, u32); 7] {
    [
        ("BENCH_CPU", cpus),
        ("BENCH_STARTS", TASKS),
        ("BENCH_HASH", slots),
        ("BENCH_PCPU_HASH", slots),
        ("BENCH_PCPU", slots),
        ("BENCH_MMAP", slots * shards),
        ("BENCH_SLOTS", slots),
    ]
}

impl Running {
    pub(crate) fn programs(&self) -> Vec<ProgramStatistics> {
        match self {
            Self::Product(sched) => sched.loaded().programs().collect(),
            Self::Bench(loaded) => loaded.programs().collect(),
        }
    }
}
