//! What one scrape costs: reading the maps, and writing the text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Write as _;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use aya::maps::{HashMap, Map, MapData, PerCpuHashMap, PerCpuValues};
use aya::{Ebpf, EbpfLoader};
use flate2::Compression;
use flate2::write::GzEncoder;
use sysprobe_agent::config::metrics::MetricsConfig;
use sysprobe_agent::domain::traits::Domain as _;
use sysprobe_agent::metrics::{self, Format};
use sysprobe_agent::plan::CpuShards;
use sysprobe_agent::snapshot::{
    AgentSample, BlameSample, BlockSample, CausesSample, CpuSample, Culprit, DeviceSample, HistogramSample,
    HistogramScope, LoadSample, MemoryLevels, MemorySample, NetSample, OperationSample, PathSample,
    PressureSample, READABLE_FROM, ReclaimSample, RequestSample, RxpathSample, SchedSample, Snapshot,
    StageSample, StallSample, TcpSample, TcpTimes, ThreadsSample, Throttling, TrafficSample, VERSION,
    VfsSample, Workload, WorkloadKind, WorkloadSample,
};
use sysprobe_common::sched::SchedStats;

use crate::figures::Figures;
use crate::system::{cpu_us, descriptor, newest_map, read_batch};
use crate::variants::{Bench, OBJECT, sizes};

const ACTIVE: u32 = 1_000;
const WORKLOADS: u32 = 500;
const REPEATS: usize = 50;

/// The aligned bytes of a value, as aya wants its types.
type Value = [u64; size_of::<SchedStats>() / 8];

pub(crate) fn report(bench: &Bench) -> Result<String> {
    let mut out = format!(
        "## One scrape\n\nMicroseconds of CPU, median (quartiles) of {REPEATS}. Maps: {ACTIVE} active \
         cgroups.\n\n\
         | | us |\n|---|---:|\n"
    );
    let many = CpuShards::new(&crate::memory::cpus(), 16);
    for shards in [&bench.plan.cpu_shards, &many] {
        let (read, flush) = product(bench, shards)?;
        let count = shards.shards.count;
        writeln!(out, "| **product: batched slots, mapped array, {count} shards each** | {read:.0} |")?;
        if *shards == bench.plan.cpu_shards {
            writeln!(
                out,
                "| product: flushing running tasks, {} CPUs | {flush:.1} |",
                bench.facts.cpus.online.len()
            )?;
        }
    }
    let object = load(bench)?;
    let hash = descriptor(object.map("BENCH_HASH").context("no hash")?)?;
    writeln!(out, "| hash by cgroup id, batched | {:.0} |", batched(hash, 1)?)?;
    let cpus = bench.facts.cpus.possible;
    let per_cpu = descriptor(object.map("BENCH_PCPU_HASH").context("no per-CPU hash")?)?;
    writeln!(
        out,
        "| per-CPU hash by cgroup id, batched, {cpus} CPUs | {:.0} |",
        batched(per_cpu, cpus as usize)?
    )?;
    writeln!(out, "| hash by cgroup id, two calls for each key | {:.0} |", one_by_one(&object)?)?;
    let forms = [
        ("OpenMetrics", Format::OpenMetrics),
        ("Prometheus text", Format::Plain),
        ("protobuf, with native histograms", Format::Protobuf),
    ];
    for (name, format) in forms {
        let (us, form) = rendered(format)?;
        writeln!(out, "| {name}, of {WORKLOADS} busy workloads: {} KiB | {us:.0} |", form.len() / 1024)?;
        let (us, bytes) = compressed(&form)?;
        writeln!(out, "| the same, compressed as Prometheus asks: {} KiB | {us:.0} |", bytes / 1024)?;
    }
    Ok(out)
}

fn repeat(mut act: impl FnMut() -> Result<()>) -> Result<Figures> {
    let mut figures = Figures::default();
    act()?;
    for _ in 0..REPEATS {
        let start = cpu_us();
        act()?;
        figures.push(cpu_us() - start);
    }
    Ok(figures)
}

/// The shipped way. The slots are entered by hand: what they hold does not matter to the reader.
fn product(bench: &Bench, shards: &CpuShards) -> Result<(Figures, Figures)> {
    let mut plan = bench.plan.clone();
    plan.cpu_shards = shards.clone();
    plan.slots = plan.slots.max(2 * ACTIVE);
    let mut sched = bench.product(&plan)?;
    let map = MapData::from_id(newest_map("SCHED_SLOTS")?.id())?;
    let mut slots: HashMap<_, u64, u32> = Map::HashMap(map).try_into()?;
    // Far from the ids of real cgroups, and from the slots that these are given.
    for number in 0..ACTIVE {
        slots.insert(u64::from(number) + (1 << 40), plan.slots - 1 - number, 0)?;
    }
    let mut seen = 0_u64;
    let read = repeat(|| {
        sched.slots().0.list()?;
        sched.slots().0.read(|_| true, |_, gathered| seen += 1 + gathered.on_cpu_ns);
        Ok(())
    })?;
    anyhow::ensure!(seen > u64::from(ACTIVE), "the product did not read what was entered");
    let flush = repeat(|| Ok(sched.flush()?))?;
    Ok((read, flush))
}

/// The maps of `bench.o` with entries for as many cgroups.
fn load(bench: &Bench) -> Result<Ebpf> {
    let cpus = bench.facts.cpus.possible;
    let mut loader = EbpfLoader::new();
    loader.allow_unsupported_maps();
    for (name, entries) in sizes(2 * ACTIVE, 1, cpus) {
        loader.map_max_entries(name, entries);
    }
    let mut object = loader.load(OBJECT)?;
    let value: Value = [1; _];
    let mut hash: HashMap<_, u64, Value> = object.map_mut("BENCH_HASH").context("no hash")?.try_into()?;
    for key in 0..u64::from(ACTIVE) {
        hash.insert(key, value, 0)?;
    }
    let map = object.map_mut("BENCH_PCPU_HASH").context("no per-CPU hash")?;
    let mut per_cpu: PerCpuHashMap<_, u64, Value> = map.try_into()?;
    for key in 0..u64::from(ACTIVE) {
        per_cpu.insert(key, PerCpuValues::try_from(vec![value; cpus as usize])?, 0)?;
    }
    Ok(object)
}

fn batched(map: std::os::fd::BorrowedFd<'_>, values_per_key: usize) -> Result<Figures> {
    let room = 2 * ACTIVE as usize;
    let mut keys = vec![0_u64; room];
    let mut values = vec![0_u8; room * values_per_key * size_of::<SchedStats>()];
    repeat(|| {
        let count = read_batch(map.as_fd(), &mut keys, &mut values)?;
        anyhow::ensure!(count == ACTIVE as usize, "{count} entries were read");
        Ok(())
    })
}

fn one_by_one(object: &Ebpf) -> Result<Figures> {
    let hash: HashMap<_, u64, Value> = object.map("BENCH_HASH").context("no hash")?.try_into()?;
    repeat(|| {
        let count = hash.iter().filter_map(Result::ok).count();
        anyhow::ensure!(count == ACTIVE as usize, "{count} entries were read");
        Ok(())
    })
}

fn rendered(format: Format) -> Result<(Figures, Vec<u8>)> {
    let mut form = Vec::new();
    let mut figures = Figures::default();
    for _ in 0..REPEATS {
        // The text is made from a snapshot that is given away.
        let snapshot = snapshot();
        let start = cpu_us();
        form = metrics::render(snapshot, format, &MetricsConfig::default())?;
        figures.push(cpu_us() - start);
    }
    Ok((figures, form))
}

/// As the agent's HTTP server does it.
fn compressed(form: &[u8]) -> Result<(Figures, usize)> {
    let mut bytes = 0;
    let figures = repeat(|| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(form)?;
        bytes = encoder.finish()?.len();
        Ok(())
    })?;
    Ok((figures, bytes))
}

/// Requests over TCP, by typed tracepoints.
fn received(number: u32) -> RxpathSample {
    let stage = |name: &str| StageSample { name: name.to_owned(), latency: operation(number).latency };
    let stages = ["device_to_tcp", "tcp_to_ready", "ready_to_wakeup", "wakeup_to_run", "run_to_read"];
    let path = PathSample { stages: stages.map(stage).to_vec(), total: operation(number).latency };
    RxpathSample { protocols: BTreeMap::from([("tcp".to_owned(), path)]) }
}

/// Something in every bucket.
fn histogram(number: u32) -> HistogramSample {
    let counts = std::array::from_fn(|bucket| bucket as u64 * 1_000 + u64::from(number));
    HistogramSample::new(counts, 123_456_789_012)
}

fn operation(number: u32) -> OperationSample {
    OperationSample { latency: histogram(number), errors: 12, bytes: 987_654_321_098 }
}

/// Reads and writes of one device.
fn block(number: u32) -> BlockSample {
    let request = RequestSample { requests: operation(number), queued_ns: 123_456_789 };
    let device = DeviceSample { read: request.clone(), write: request, ..DeviceSample::default() };
    BlockSample { devices: BTreeMap::from([("nvme0n1".to_owned(), device)]) }
}

/// What most programs do now and then.
fn storage(number: u32) -> VfsSample {
    let operation = operation(number);
    VfsSample {
        read: operation.clone(),
        write: operation.clone(),
        fsync: operation.clone(),
        open: operation,
        ..VfsSample::default()
    }
}

fn traffic(number: u32) -> TrafficSample {
    TrafficSample {
        received_bytes: 123_456_789_012,
        received_packets: 123_456_789,
        sent_bytes: 987_654_321_098,
        sent_packets: u64::from(number) * 1_000_000,
    }
}

/// DNS, and some datagrams that came too fast.
fn net(number: u32) -> NetSample {
    let families = ["ipv4", "ipv6"].map(|family| (family.into(), traffic(number)));
    NetSample {
        traffic: BTreeMap::from([("udp".into(), BTreeMap::from(families))]),
        drops: BTreeMap::from([(6, 123_456)]),
    }
}

fn memory(number: u32) -> MemorySample {
    let usage_bytes = 123_456_789 + u64::from(number);
    let levels = MemoryLevels { usage_bytes, working_set_bytes: 98_765_432, limit_bytes: Some(268_435_456) };
    MemorySample { levels: Some(levels), oom_kills: Some(0), major_faults: Some(1_234) }
}

fn pressure() -> PressureSample {
    let stall = StallSample { waiting_ns: Some(123_456_789_000), stalled_ns: Some(12_345_678_000) };
    PressureSample { cpu: stall.clone(), memory: stall.clone(), io: stall }
}

fn tcp(number: u32) -> TcpSample {
    let traffic = traffic(number);
    let latency = operation(number).latency;
    TcpSample {
        ipv4: traffic,
        ipv6: traffic,
        times: TcpTimes { srtt: latency.clone(), variance: latency.clone(), connect: latency },
        ..TcpSample::default()
    }
}

/// Names as long as a cluster's, and numbers with many digits.
fn snapshot() -> Snapshot {
    let workload = |number: u32| Workload {
        namespace: format!("team-{}-production", number % 20),
        pod: format!("checkout-service-7d9f8b6c5d-{number:05}"),
        container: "checkout".into(),
    };
    let row = |number: u32| WorkloadSample {
        created_ms: 1_700_000_000_000,
        sched: Some(SchedSample {
            wait: histogram(number),
            on_cpu_ns: 987_654_321_098,
            voluntary_switches: 1_234_567,
            involuntary_switches: 765_432,
            causes: Some(CausesSample { other_pod_ns: 98_765_432_109, ..CausesSample::default() }),
            blame: blame(number),
            threads: Some(ThreadsSample { by_state: [1, 2, 345, 0, 0, 0, 0, 0, 0, 0], load: 3 }),
            load: Some(LoadSample { fixed: [6_543, 4_321, 2_109] }),
        }),
        vfs: Some(storage(number)),
        block: Some(block(number)),
        tcp: Some(tcp(number)),
        net: Some(net(number)),
        rxpath: Some(received(number)),
        reclaim: Some(ReclaimSample { reclaims: 12_345, took_ns: 1_234_567_890 }),
        cpu: Some(CpuSample {
            usage_ns: Some(987_654_321_098),
            throttling: Some(Throttling {
                periods: 10_000,
                throttled_periods: 500,
                throttled_ns: 5_000_000_000,
            }),
            quota_cores: Some(1.5),
            period_us: Some(100_000),
            burst_us: Some(0),
            weight: Some(100),
        }),
        memory: Some(memory(number)),
        pressure: Some(pressure()),
        ..WorkloadSample::new(workload(number), WorkloadKind::Container)
    };
    Snapshot {
        version: VERSION,
        readable_from: READABLE_FROM,
        monotonic_ns: 1,
        domains: Vec::new(),
        workloads: (0..WORKLOADS).map(row).collect(),
        other: None,
        pods: Vec::new(),
        histograms: HistogramScope::default(),
        drop_reasons: BTreeMap::from([(6, "socket_rcvbuff".into())]),
        slow: None,
        node: None,
        agent: AgentSample::default(),
    }
}

/// As many culprits as are told by name.
fn blame(number: u32) -> BlameSample {
    let culprit = |other: u32| Culprit {
        namespace: "team-payments".into(),
        pod: format!("checkout-service-7d9f8b6c5d-{other:05}"),
        container: String::new(),
    };
    let culprits = (number..number + 10).map(|other| (culprit(other), 12_345_678_901)).collect();
    BlameSample { culprits, created_ms: vec![1_700_000_000_000; 10], other_ns: 9_876_543_210 }
}
