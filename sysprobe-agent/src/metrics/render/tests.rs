//! The text forms of small snapshots.

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;

use super::*;
use crate::cli::fixture;
use crate::snapshot::{
    Culprit, Hidden, HistogramSample, HistogramScope, PodSample, PodTotals, SchedSample, Workload,
    WorkloadKind, WorkloadSample,
};

fn snapshot(container: &str, waits_ns: &[u64]) -> Snapshot {
    let wait = HistogramSample::of(waits_ns);
    let sched = SchedSample { voluntary_switches: 3, wait, ..SchedSample::default() };
    let workload = Workload { container: container.into(), ..Workload::default() };
    let row = WorkloadSample { sched: Some(sched), ..WorkloadSample::new(workload, WorkloadKind::Path) };
    Snapshot { domains: Vec::new(), ..fixture::snapshot(0, vec![row]) }
}

fn rendered(snapshot: Snapshot, format: Format) -> String {
    let text = render(snapshot, format, &MetricsConfig::default()).expect("encodes");
    String::from_utf8(text).expect("text")
}

fn lines(container: &str, waits_ns: &[u64]) -> Vec<String> {
    let text = rendered(snapshot(container, waits_ns), Format::Plain);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn classic_buckets_are_cumulative_and_end_with_the_count() {
    let lines = lines("a", &[1_000, 1_953_125, 1_953_126, 40_000_000_000]);
    let bucket = |bound: &str| {
        let prefix = format!(
            "sysprobe_sched_wakeup_latency_seconds_bucket\
             {{le=\"{bound}\",namespace=\"\",pod=\"\",container=\"a\"}} "
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
    let plain = rendered(snapshot("a", &[5]), Format::Plain);
    let openmetrics = rendered(snapshot("a", &[5]), Format::OpenMetrics);
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
        let text = rendered(Snapshot { histograms: scope, ..both.clone() }, Format::Plain);
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

fn with(config: &str, snapshot: Snapshot) -> String {
    let config: MetricsConfig = toml::from_str(config).expect("a configuration");
    String::from_utf8(render(snapshot, Format::Plain, &config).expect("encodes")).expect("text")
}

#[test]
fn what_never_happened_has_no_histogram() {
    let text = rendered(snapshot("a", &[]), Format::Plain);
    assert!(!text.contains("sysprobe_sched_wakeup_latency_seconds_bucket"), "{text}");
    assert!(text.contains("sysprobe_sched_context_switches_total{"));
}

#[test]
fn only_families_that_are_wanted_are_written() {
    let text = with(
        "families = { allow = ['sysprobe_sched_.*'], deny = ['.*_switches_total'] }",
        snapshot("a", &[5]),
    );
    let families: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(families.iter().all(|family| family.starts_with("sysprobe_sched_")), "{families:?}");
    assert!(families.iter().any(|family| family.starts_with("sysprobe_sched_wakeup_latency_seconds ")));
    assert!(!text.contains("switches"), "{text}");
}

#[test]
fn a_workload_has_no_more_series_than_it_may() {
    let mut snapshot = snapshot("a", &[5; 10]);
    let mut second = snapshot.workloads[0].clone();
    second.workload.container = "b".into();
    snapshot.workloads.push(second);
    // The histogram has 25 series, switches two, time on CPU one.
    let text = with("series_per_workload = 50", snapshot.clone());
    let of = |text: &str, name: &str| {
        text.lines().filter(|line| line.contains(&format!("container=\"{name}\""))).count()
    };
    let all = of(&text, "a");
    assert!((28..=50).contains(&all) && of(&text, "b") == all, "{text}");
    assert!(text.contains("\nsysprobe_agent_left_out_series 0"), "{text}");
    let mut limited: MetricsConfig = toml::from_str("").expect("empty");
    limited.series_per_workload = 26;
    let text = String::from_utf8(render(snapshot, Format::Plain, &limited).expect("encodes")).expect("text");
    assert_eq!((of(&text, "a"), of(&text, "b")), (26, 26));
    let left_out = 2 * (all - 26);
    assert!(text.contains(&format!("\nsysprobe_agent_left_out_series {left_out}.0")), "{left_out}: {text}");
}

/// A node has only one kernel, which uses every device. A pod may have a container of that name.
#[test]
fn the_kernel_may_have_ten_times_as_many_series_as_a_container() {
    let mut snapshot = snapshot(Workload::KERNEL, &[5; 10]);
    let mut of_pod = snapshot.workloads[0].clone();
    (of_pod.workload.namespace, of_pod.workload.pod) = ("shop".into(), "cart".into());
    snapshot.workloads.push(of_pod);
    let series = |limit| {
        let limited = MetricsConfig { series_per_workload: limit, ..MetricsConfig::default() };
        let text = render(snapshot.clone(), Format::Plain, &limited).expect("encodes");
        let text = String::from_utf8(text).expect("text");
        let is_of = |line: &&str, namespace| line.contains(&format!("namespace=\"{namespace}\",pod="));
        ["", "shop"].map(|namespace| {
            let named = |line: &&str| line.contains("container=\"kernel\"") && is_of(line, namespace);
            text.lines().filter(named).count()
        })
    };
    let [all, of_container] = series(1000);
    assert!(all >= of_container && of_container >= 28, "{all} and {of_container}");
    assert_eq!(series(3), [all, of_container - 25], "the histogram has 25 series, which find no room");
    assert_eq!(series(2)[0], all - 25);
}

#[test]
fn hidden_workloads_are_one() {
    let mut snapshot = snapshot("a", &[5]);
    snapshot.workloads[0].hidden = Some(Hidden::OverBudget);
    let other = WorkloadSample::new(Workload::other(), WorkloadKind::Other);
    snapshot.other = Some(WorkloadSample { sched: snapshot.workloads[0].sched.clone(), ..other });
    let text = rendered(snapshot, Format::Plain);
    assert!(!text.contains("container=\"a\""), "{text}");
    let line = "sysprobe_sched_wakeup_latency_seconds_count{namespace=\"\",pod=\"\",container=\"other\"} 1";
    assert!(text.contains(line), "{text}");
}

#[test]
fn each_family_says_how_many_series_it_has() {
    for format in [Format::Plain, Format::OpenMetrics] {
        let text = rendered(snapshot("a", &[5]), format);
        let said = |family: &str| {
            let prefix = format!("sysprobe_agent_series{{family=\"{family}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
        };
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(
            said("sysprobe_sched_wakeup_latency_seconds"),
            Some(format!("{}.0", count("sysprobe_sched_wakeup_latency_seconds_")))
        );
        assert_eq!(said("sysprobe_sched_context_switches_total"), Some("2.0".to_owned()));
    }
}

fn families(snapshot: Snapshot) -> Vec<MetricFamily> {
    let bytes = render(snapshot, Format::Protobuf, &MetricsConfig::default()).expect("encodes");
    let mut rest = &bytes[..];
    let mut families = Vec::new();
    while !rest.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut rest).expect("a family"));
    }
    families
}

/// A workload and the agent itself, each counted since a different time.
fn since(workload_ms: u64, agent_ms: u64) -> Snapshot {
    let mut snapshot = snapshot("a", &[5]);
    snapshot.workloads[0].created_ms = workload_ms;
    let blame = &mut snapshot.workloads[0].sched.as_mut().expect("has sched").blame;
    let culprit = |pod: &str| Culprit { namespace: "shop".into(), pod: pod.into(), ..Culprit::default() };
    blame.culprits = vec![(culprit("late"), 10), (culprit("early"), 20)];
    blame.created_ms = vec![workload_ms + 1, workload_ms];
    blame.other_ns = 5;
    snapshot.agent.started_unix_ms = agent_ms;
    snapshot
}

#[test]
fn protobuf_says_of_all_counters_and_histograms_since_when_they_are_counted() {
    let families = families(since(1_700_000_000_123, 1_600_000_000_000));
    for family in &families {
        for series in &family.metric {
            let stamp = match (&series.counter, &series.histogram) {
                (Some(counter), _) => counter.start_timestamp,
                (None, Some(histogram)) => histogram.start_timestamp,
                (None, None) => continue,
            };
            let is_the_workloads = series.label.iter().any(|label| label.name == "container");
            let is_late = series.label.iter().any(|label| label.value == "late");
            let stamp = stamp.map(|stamp| (stamp.seconds, stamp.nanos));
            let expected = match (is_the_workloads, is_late) {
                (true, true) => (1_700_000_000, 124_000_000),
                (true, false) => (1_700_000_000, 123_000_000),
                (false, _) => (1_600_000_000, 0),
            };
            assert_eq!(stamp, Some(expected), "{}", family.name);
        }
    }
    let blame = families.iter().find(|family| family.name == "sysprobe_sched_blame_seconds_total");
    assert_eq!(blame.map(|blame| blame.metric.len()), Some(3));
}

#[test]
fn openmetrics_has_lines_of_it_if_they_are_wanted_and_plain_text_never() {
    let line =
        "sysprobe_sched_on_cpu_seconds_created{namespace=\"\",pod=\"\",container=\"a\"} 1700000000.123\n";
    let wanted: MetricsConfig = toml::from_str("created_lines = true").expect("a configuration");
    let text = |format, config: &MetricsConfig| {
        let text = render(since(1_700_000_000_123, 1_600_000_000_000), format, config).expect("encodes");
        String::from_utf8(text).expect("text")
    };
    let with = text(Format::OpenMetrics, &wanted);
    assert!(with.contains(line), "{with}");
    assert!(with.contains("\nprocess_cpu_seconds_created 1600000000.000\n"), "{with}");
    let without = text(Format::OpenMetrics, &MetricsConfig::default());
    // The process's own numbers change meanwhile.
    let others = |line: &&str| !line.contains("_created") && !line.starts_with("process_");
    let kept: Vec<_> = with.lines().filter(others).collect();
    assert_eq!(kept, without.lines().filter(others).collect::<Vec<_>>(), "they change nothing else");
    let count =
        |suffix: &str| with.lines().filter(|line| !line.starts_with('#') && line.contains(suffix)).count();
    let histograms = count("_bucket{le=\"+Inf\"");
    assert_eq!(count("_created"), count("_total{") + count("_total ") + histograms);
    assert!(!text(Format::Plain, &wanted).contains("_created"));
}

#[test]
fn protobuf_has_the_kernels_own_buckets() {
    let snapshot = snapshot("a", &[1, 600, 1_953_125, 1_953_126, 40_000_000_000]);
    let sample = snapshot.workloads[0].sched.as_ref().expect("has sched").wait.clone();
    let families = families(snapshot);
    assert_eq!(families.len(), table::all().count());
    let waits = families.iter().find(|family| family.name == "sysprobe_sched_wakeup_latency_seconds");
    let histogram = waits.expect("it is there").metric[0].histogram.clone().expect("a histogram");
    assert_eq!((histogram.schema, histogram.sample_count), (2, sample.count()));
    assert_eq!(histogram.zero_count, 1, "one nanosecond is not told from none");
    assert_eq!(
        histogram
            .positive_delta
            .iter()
            .scan(0, |count, delta| {
                *count += delta;
                Some(*count)
            })
            .sum::<i64>(),
        4
    );
    assert!(!histogram.bucket.is_empty(), "who does not read native ones has the classic ones");
}
