//! A real Prometheus scrapes the agent: it accepts the exported metrics, and computes the same values as the
//! agent.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use support::agent::Agent;
use support::cgroup::Cgroup;
use support::process::{self, Load, cpus};
use support::prometheus::Prometheus;
use support::totals::workload;
use support::{figure, http, until};
use sysprobe_agent::snapshot::{HistogramSample, bucket_upper};

/// The bounds of the classic bucket that the quantile lies in: 4 microseconds, and powers of two above.
fn classic_bucket(sample: &HistogramSample, q: f64) -> (f64, f64) {
    let quantile = sample.quantile(q).expect("there are observations");
    let mut upper = (-18_f64).exp2();
    while upper < quantile {
        upper *= 2.0;
    }
    let lower = if upper > (-18_f64).exp2() { upper / 2.0 } else { 0.0 };
    (lower, upper)
}

#[test]
fn prometheus_has_the_agents_series_and_computes_the_agents_quantiles() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("scraped");
    let load = Load::running(&cgroup, &cpus()[..1], || process::in_threads(3, process::sleep_often));
    until("it has run", || (load.totals().voluntary > 500).then_some(()));
    load.freeze();
    let snapshot = agent.snapshot();
    let sample = workload(&snapshot, &cgroup.name).and_then(|row| row.sched.as_ref()).expect("known");

    let prometheus = Prometheus::start(agent.port);
    until("Prometheus finds the agent up", || (prometheus.value("up")? > 0.5).then_some(()));
    let labels = format!("{{container=\"{}\"}}", cgroup.name);
    let get = |name: &str| {
        let expression = format!("{name}{labels}");
        // After a scrape that took too long, there is no value until the next one.
        until(&expression, || prometheus.value(&expression))
    };
    // The load is frozen, so these values do not change; only the last digits of a fraction may differ.
    let is = |name: &str, value: f64| assert!((get(name) - value).abs() < 1e-9, "{name} is not {value}");
    is("sysprobe_sched_wakeup_latency_seconds_count", sample.wait.count() as f64);
    is("sysprobe_sched_wakeup_latency_seconds_sum", sample.wait.sum_ns as f64 / 1e9);
    is("sysprobe_sched_on_cpu_seconds_total", sample.on_cpu_ns as f64 / 1e9);
    for q in [0.5, 0.99] {
        let buckets = format!("sysprobe_sched_wakeup_latency_seconds_bucket{labels}");
        let expression = format!("histogram_quantile({q}, {buckets})");
        let theirs = until(&expression, || prometheus.value(&expression));
        let (lower, upper) = classic_bucket(&sample.wait, q);
        figure(&format!(
            "prometheus: q{q} {theirs} s in {lower}..{upper}, ours {:?}",
            sample.wait.quantile(q)
        ));
        // Prometheus interpolates within the bucket, so its result lies there, including the bounds. The
        // agent's finer buckets show which one it is. A quantile between two observations of different
        // buckets lies on the bound.
        assert!((lower..=upper).contains(&theirs), "{theirs} is not in {lower}..{upper}");
    }
    until("the last scrape had no error", || {
        let targets = prometheus.ask("/api/v1/targets")?;
        let target = &targets["activeTargets"][0];
        (target["health"] == "up" && target["lastError"] == "").then_some(())
    });
}

/// The bounds of the kernel's bucket that the quantile lies in; there are four to a power of two.
fn kernels_bucket(sample: &HistogramSample, q: f64) -> (f64, f64) {
    let middle = sample.quantile(q).expect("there are observations");
    let bucket =
        (0..sample.buckets().len()).find(|bucket| bucket_upper(*bucket) > middle).expect("a bound above");
    (if bucket == 0 { 0.0 } else { bucket_upper(bucket - 1) }, bucket_upper(bucket))
}

#[test]
fn prometheus_computes_quantiles_from_the_kernels_own_buckets() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("native");
    let load = Load::running(&cgroup, &cpus()[..1], || process::in_threads(3, process::sleep_often));
    until("it has run", || (load.totals().voluntary > 500).then_some(()));
    load.freeze();
    let snapshot = agent.snapshot();
    let sample = workload(&snapshot, &cgroup.name).and_then(|row| row.sched.as_ref()).expect("known");

    let prometheus = Prometheus::with_native_histograms(agent.port);
    until("Prometheus finds the agent up", || (prometheus.value("up")? > 0.5).then_some(()));
    let series = format!("sysprobe_sched_wakeup_latency_seconds{{container=\"{}\"}}", cgroup.name);
    // A classic histogram has no series of this name.
    let get = |function: &str| {
        let expression = format!("{function}{series})");
        until(&expression, || prometheus.value(&expression))
    };
    assert!((get("histogram_count(") - sample.wait.count() as f64).abs() < 1e-9);
    assert!((get("histogram_sum(") - sample.wait.sum_ns as f64 / 1e9).abs() < 1e-9);
    for q in [0.1, 0.5, 0.9, 0.99] {
        let theirs = get(&format!("histogram_quantile({q}, "));
        let (lower, upper) = kernels_bucket(&sample.wait, q);
        figure(&format!("prometheus, native: q{q} {theirs} s in {lower}..{upper}"));
        // Prometheus interpolates within the bucket.
        assert!(
            (lower * 0.999_999..=upper * 1.000_001).contains(&theirs),
            "{theirs} is not in {lower}..{upper}"
        );
    }
}

#[test]
fn every_form_may_be_compressed() {
    let agent = Agent::start();
    let forms =
        ["application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "*/*"];
    for form in forms {
        let sizes = ["identity", "gzip"].map(|encoding| {
            let mut curl = Command::new("curl");
            let accept = [format!("Accept: {form}"), format!("Accept-Encoding: {encoding}")];
            curl.args(["-s", "-D", "/dev/stderr", "-H", &accept[0], "-H", &accept[1]]);
            let output = curl.arg(format!("http://127.0.0.1:{}/metrics", agent.port)).output().expect("curl");
            let head = String::from_utf8_lossy(&output.stderr).to_lowercase();
            assert_eq!(head.contains("content-encoding: gzip"), encoding == "gzip", "{head}");
            output.stdout.len()
        });
        figure(&format!("{form}: {} bytes, {} compressed", sizes[0], sizes[1]));
        assert!(sizes[1] < sizes[0] / 2, "{sizes:?}");
    }
}

#[test]
fn every_family_that_the_agent_exports_reaches_prometheus_with_its_type() {
    let agent = Agent::start();
    let prometheus = Prometheus::start(agent.port);
    // In OpenMetrics, which Prometheus requests, a counter's family has no `_total`.
    let text = agent.metrics();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let expected: Vec<_> =
        types.map(|(name, kind)| (name.strip_suffix("_total").unwrap_or(name), kind)).collect();
    assert!(expected.len() > 20, "{text}");
    // Prometheus learns them one by one while it parses a scrape.
    until("Prometheus knows every family by its type", || {
        let data = prometheus.ask("/api/v1/targets/metadata?match_target=%7Bjob%3D%22sysprobe%22%7D")?;
        let families = data.as_array()?;
        let is_known = |(name, kind): &(&str, &str)| {
            families.iter().any(|family| family["metric"] == *name && family["type"] == *kind)
        };
        expected.iter().all(is_known).then_some(())
    });
}

#[test]
fn promtool_finds_nothing_to_say_about_a_scrape() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("promtool");
    let load = Load::running(&cgroup, &cpus(), process::sleep_often);
    until("it has run", || (load.totals().voluntary > 10).then_some(()));
    let text = agent.metrics();
    assert!(text.contains(&cgroup.name));
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().expect("promtool comes with the package `prometheus`");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn both_text_forms_have_the_same_families() {
    let agent = Agent::start();
    let openmetrics =
        http::get(agent.port, "/metrics", "application/openmetrics-text; version=1.0.0").expect("answered");
    assert!(openmetrics.head.contains("content-type: application/openmetrics-text; version=1.0.0"));
    assert!(openmetrics.body.ends_with("# EOF\n"));
    let plain = agent.get("/metrics").expect("answered");
    assert!(plain.head.contains("content-type: text/plain; version=0.0.4"), "{}", plain.head);
    // Compares names instead of series: series may appear between two scrapes.
    let names = |text: &str| {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let mut names: Vec<_> =
            types.map(|(name, _)| name.strip_suffix("_total").unwrap_or(name).to_owned()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&openmetrics.body), names(&plain.body));
}
