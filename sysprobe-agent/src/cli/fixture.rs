//! Snapshots for the tests of the commands: a small node with a little of everything.

use std::collections::BTreeMap;

use crate::snapshot::{
    AgentSample, BlockSample, CpuSample, DeviceSample, DomainState, HistogramSample, HistogramScope,
    OperationSample, READABLE_FROM, RequestSample, SchedSample, Snapshot, Throttling, VERSION, VfsSample,
    Workload, WorkloadKind, WorkloadSample,
};

pub(crate) mod live;
pub(crate) mod pod;

pub(crate) const ID: &str = "4f1c0e9d2b7a4f1c0e9d2b7a4f1c0e9d2b7a4f1c0e9d2b7a4f1c0e9d2b7a9f00";

pub(crate) fn workload(namespace: &str, pod: &str, container: &str) -> Workload {
    Workload { namespace: namespace.to_owned(), pod: pod.to_owned(), container: container.to_owned() }
}

pub(crate) fn sched(on_cpu_ns: u64, waits_ns: &[u64], voluntary: u64, involuntary: u64) -> SchedSample {
    SchedSample {
        wait: HistogramSample::of(waits_ns),
        on_cpu_ns,
        voluntary_switches: voluntary,
        involuntary_switches: involuntary,
        ..SchedSample::default()
    }
}

pub(crate) fn cpu(usage_ns: u64, periods: u64, throttled_periods: u64, throttled_ns: u64) -> CpuSample {
    CpuSample {
        usage_ns: Some(usage_ns),
        throttling: Some(Throttling { periods, throttled_periods, throttled_ns }),
        quota_cores: (periods > 0).then_some(0.5),
        ..CpuSample::default()
    }
}

pub(crate) fn operation(latencies_ns: &[u64], errors: u64, bytes: u64) -> OperationSample {
    OperationSample { latency: HistogramSample::of(latencies_ns), errors, bytes }
}

/// A workload that did nothing but call fsync.
pub(crate) fn flushing(workload: Workload, latencies_ns: &[u64]) -> WorkloadSample {
    let vfs = VfsSample { fsync: operation(latencies_ns, 0, 0), ..VfsSample::default() };
    WorkloadSample { vfs: Some(vfs), ..sample(workload, None, None) }
}

pub(crate) fn sample(
    workload: Workload,
    sched: Option<SchedSample>,
    cpu: Option<CpuSample>,
) -> WorkloadSample {
    WorkloadSample { sched, cpu, ..WorkloadSample::new(workload, WorkloadKind::Container) }
}

pub(crate) fn snapshot(seconds: u64, workloads: Vec<WorkloadSample>) -> Snapshot {
    let up = |name: &str, mode: &str| DomainState {
        name: name.to_owned(),
        up: true,
        mode: mode.to_owned(),
        ..DomainState::default()
    };
    Snapshot {
        version: VERSION,
        readable_from: READABLE_FROM,
        monotonic_ns: seconds * 1_000_000_000,
        domains: vec![up("sched", "tp_btf"), up("vfs", "fentry"), up("block", "tp_btf"), up("cpu", "file")],
        workloads,
        other: None,
        pods: Vec::new(),
        histograms: HistogramScope::default(),
        drop_reasons: BTreeMap::new(),
        slow: None,
        node: None,
        agent: AgentSample::default(),
    }
}

pub(crate) fn without(mut snapshot: Snapshot, name: &str, reason: &str) -> Snapshot {
    let domain = snapshot.domains.iter_mut().find(|domain| domain.name == name).expect("it is there");
    *domain = DomainState { up: false, mode: String::new(), reason: reason.to_owned(), ..domain.clone() };
    snapshot
}

pub(crate) fn without_cpu(snapshot: Snapshot) -> Snapshot {
    without(snapshot, "cpu", "no cgroup with a `cpu` controller is mounted")
}

/// As on a kernel that rejected the programs.
pub(crate) fn without_vfs(snapshot: Snapshot) -> Snapshot {
    let mut snapshot = without(snapshot, "vfs", "the kernel has no BTF");
    snapshot.workloads.iter_mut().for_each(|sample| sample.vfs = None);
    snapshot
}

/// Two seconds on a node of eight workloads, two of them idle.
pub(crate) fn node() -> (Snapshot, Snapshot) {
    let names = [
        workload("shop", "checkout-7d9c5b6f4-x2x9q", "server"),
        workload("shop", "checkout-7d9c5b6f4-x2x9q", "istio-proxy"),
        workload("", "", ID),
        workload("", "", "systemd-journald.service"),
        workload("", "", "kernel"),
        workload("batch-processing", "nightly-report-generator-28833120-l4k7d", "report-generator"),
        workload("", "", "ssh.service"),
        workload("shop", "idle-0", "server"),
    ];
    let earlier = names.iter().map(|name| {
        let sample = sample(name.clone(), Some(sched(0, &[], 0, 0)), Some(cpu(0, 0, 0, 0)));
        WorkloadSample { vfs: Some(VfsSample::default()), ..sample }
    });
    let later = names.iter().zip(node_totals()).zip(node_storage()).map(|((name, (sched, cpu)), vfs)| {
        let block = node_requests(name);
        let mut sample =
            WorkloadSample { vfs: Some(vfs), block, ..sample(name.clone(), Some(sched), Some(cpu)) };
        sample.kind = match name.container.as_str() {
            "kernel" => WorkloadKind::Kernel,
            unit if unit.ends_with(".service") => WorkloadKind::Unit,
            _ => WorkloadKind::Container,
        };
        sample
    });
    (snapshot(10, earlier.collect()), snapshot(12, later.collect()))
}

fn node_totals() -> [(SchedSample, CpuSample); 8] {
    let ms = 1_000_000;
    [
        (sched(1_000 * ms, &[3_000, 90_000, 61 * ms], 2_400, 310), cpu(1_000 * ms, 20, 14, 900 * ms)),
        (sched(84 * ms, &[4_000, 5_000, 800_000], 900, 12), cpu(84 * ms, 20, 1, 3 * ms)),
        (sched(2_000 * ms, &[40 * ms, 60 * ms], 2, 512), cpu(2_000 * ms, 0, 0, 0)),
        (sched(3 * ms, &[2_000], 40, 0), cpu(3 * ms, 0, 0, 0)),
        (sched(55 * ms, &[1_000, 2_000, 9_000], 96_000, 3), CpuSample::default()),
        (sched(400 * ms, &[12_000, 70_000_000_000], 44, 90), cpu(400 * ms, 20, 0, 0)),
        (SchedSample::default(), cpu(0, 0, 0, 0)),
        (SchedSample::default(), cpu(0, 0, 0, 0)),
    ]
}

pub(crate) const VDA: &str = "vda";

pub(crate) fn requests(latencies_ns: &[u64], bytes: u64, queued_ns: u64) -> RequestSample {
    RequestSample { requests: operation(latencies_ns, 0, bytes), queued_ns }
}

/// The device is fast; flushes are slow because of the journal, which the kernel writes.
fn node_requests(workload: &Workload) -> Option<BlockSample> {
    let (us, ms) = (1_000, 1_000_000);
    let device = match workload.container.as_str() {
        "server" if workload.pod.starts_with("checkout") => {
            DeviceSample { flush: requests(&[300 * us; 3], 0, 0), ..DeviceSample::default() }
        }
        "kernel" => {
            DeviceSample { write: requests(&[2 * ms; 40], 655_360, 9 * ms), ..DeviceSample::default() }
        }
        _ => return None,
    };
    Some(BlockSample { devices: BTreeMap::from([(VDA.to_owned(), device)]) })
}

/// Two workloads flush what they write; a third writes much more, and fails at times.
fn node_storage() -> [VfsSample; 8] {
    let (us, ms) = (1_000, 1_000_000);
    let mut storage: [VfsSample; 8] = Default::default();
    storage[0] = VfsSample {
        read: operation(&[2 * us, 2 * us, 300 * us, 9 * ms], 0, 48_000),
        write: operation(&[5 * us; 20], 0, 163_840),
        fsync: operation(&[400 * us, 2 * ms, 61 * ms], 0, 0),
        ..VfsSample::default()
    };
    storage[3] = VfsSample {
        write: operation(&[8 * us; 3], 0, 900),
        fsync: operation(&[900 * us], 0, 0),
        create: operation(&[40 * us], 0, 0),
        unlink: operation(&[60 * us], 0, 0),
        ..VfsSample::default()
    };
    storage[5] = VfsSample {
        write: operation(&[30 * ms; 500], 4, 2_400_000_000),
        open: operation(&[9 * us; 12], 6, 0),
        ..VfsSample::default()
    };
    storage
}
