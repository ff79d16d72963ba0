//! The text forms of small snapshots.

use std::collections::BTreeMap;

use super::*;
use crate::snapshot::{
    AgentSample, HistogramScope, PodSample, PodTotals, SchedSample, VERSION, Workload, WorkloadKind,
};

fn snapshot(container: &str, waits_ns: &[u64]) -> Snapshot {
    let mut sched = SchedSample { voluntary_switches: 3, ..SchedSample::default() };
    for wait in waits_ns {
        sched.wait.buckets[hist::bucket_of(*wait)] += 1;
        sched.wait.sum_ns += wait;
    }
    let workload = Workload { container: container.into(), ..Workload::default() };
    let row = WorkloadSample {
        workload,
        kind: WorkloadKind::Path,
        gone: false,
        pod: None,
        sched: Some(sched),
        throttle: None,
        vfs: None,
        block: None,
        tcp: None,
        net: None,
        rxpath: None,
        reclaim: None,
        cpu: None,
        memory: None,
        pressure: None,
    };
    Snapshot {
        version: VERSION,
        monotonic_ns: 0,
        domains: vec![],
        workloads: vec![row],
        pods: Vec::new(),
        histograms: HistogramScope::default(),
        drop_reasons: BTreeMap::new(),
        slow: None,
        agent: AgentSample::default(),
    }
}

fn lines(container: &str, waits_ns: &[u64]) -> Vec<String> {
    let text = render(snapshot(container, waits_ns), Format::Plain).expect("encodes");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn classic_buckets_are_cumulative_and_end_with_the_count() {
    let lines = lines("a", &[1_000, 1_953_125, 1_953_126, 40_000_000_000]);
    let bucket = |bound: &str| {
        let prefix = format!(
            "sysprobe_sched_wakeup_latency_seconds_bucket{{le=\"{bound}\",namespace=\"\",pod=\"\",container=\"a\"}} "
        );
        let line =
            lines.iter().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("{lines:#?}"));
        line.to_owned()
    };
    assert_eq!(bucket("0.000003814697265625"), "1");
    // 2^-9 s is exactly 1953125 ns: that value belongs below the bound, the next one above it.
    assert_eq!(bucket("0.001953125"), "2");
    assert_eq!(bucket("0.00390625"), "3");
    assert_eq!(bucket("8.0"), "3");
    assert_eq!(bucket("+Inf"), "4");
}

#[test]
fn names_from_outside_cannot_break_out_of_their_label() {
    let lines = lines("a\"} 1\nevil{x=\"\\", &[]);
    assert!(!lines.iter().any(|line| line.starts_with("evil")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(r#"container="a\"} 1\nevil{x=\"\\""#)), "{lines:#?}");
}

#[test]
fn every_family_of_a_snapshot_is_encoded_in_both_forms() {
    let plain = render(snapshot("a", &[5]), Format::Plain).expect("encodes");
    let openmetrics = render(snapshot("a", &[5]), Format::OpenMetrics).expect("encodes");
    for metric in table::all() {
        assert!(plain.contains(&format!("# TYPE {} ", metric.full_name())), "{}", metric.name);
    }
    assert!(openmetrics.ends_with("# EOF\n"));
    assert!(!plain.contains("# EOF") && !plain.contains("# UNIT"));
}

#[test]
fn histograms_of_a_pods_containers_are_one_unless_asked_for_apart() {
    let mut both = snapshot("app", &[1_000]);
    both.workloads[0].workload =
        Workload { namespace: "shop".into(), pod: "cart-0".into(), container: "app".into() };
    both.workloads[0].pod = Some(PodSample::default());
    let wait = both.workloads[0].sched.as_ref().expect("has sched").wait.clone();
    both.pods =
        vec![PodTotals { namespace: "shop".into(), pod: "cart-0".into(), wait, ..PodTotals::default() }];
    let counts = |scope| {
        let text = render(Snapshot { histograms: scope, ..both.clone() }, Format::Plain).expect("encodes");
        let lines =
            text.lines().filter(|line| line.starts_with("sysprobe_sched_wakeup_latency_seconds_count"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let line = |container: &str| {
        format!(
            "sysprobe_sched_wakeup_latency_seconds_count\
             {{namespace=\"shop\",pod=\"cart-0\",container=\"{container}\"}} 1"
        )
    };
    assert_eq!(counts(HistogramScope::Pod), [line("")]);
    assert_eq!(counts(HistogramScope::Container), [line("app")]);
}
