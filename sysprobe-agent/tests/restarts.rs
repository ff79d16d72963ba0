//! How Prometheus evaluates the agent's counters across restarts of the agent, of a container, and of both.
//! The true increase is the kernel's count for the cgroups while the agent ran; no restart may add to it.

mod support;

use std::thread;
use std::time::Duration;

use support::agent::Agent;
use support::cgroup::Cgroup;
use support::figure;
use support::process::{self, Load, cpus};
use support::prometheus::{Options, Prometheus};
use support::{left_out, until};

const BURN: Duration = Duration::from_secs(2);

/// Has the cgroup use this much CPU time, and returns the kernel's total after that.
fn burn(cgroup: &Cgroup, time: Duration) -> u64 {
    Load::running(cgroup, &cpus(), || process::use_cpu(time)).finish();
    until("the cgroup is at rest", || cgroup.usage_at_rest())
}

/// A workload on a node whose agent is restarted, seen by Prometheus.
struct Node {
    agent: Option<Agent>,
    prometheus: Prometheus,
    cgroup: Option<Cgroup>,
    /// The kernel's count for all cgroups of this name while an agent ran.
    truth_ns: u64,
    /// The part of the current cgroup's total that was used before its agent started, or is already in
    /// `truth_ns`.
    counted_ns: u64,
    /// What `truth_ns` was when the agent started, whose counters begin there.
    truth_before_ns: u64,
}

impl Node {
    fn new() -> Self {
        let agent = Agent::start();
        let prometheus = Prometheus::start(agent.port);
        let cgroup = Cgroup::new("burnt");
        let node = Self {
            agent: Some(agent),
            prometheus,
            cgroup: Some(cgroup),
            truth_ns: 0,
            counted_ns: 0,
            truth_before_ns: 0,
        };
        node.wait_for_export();
        node
    }

    fn cgroup(&self) -> &Cgroup {
        self.cgroup.as_ref().expect("there is one between restarts")
    }

    fn series(&self) -> String {
        let name = &self.cgroup().name;
        format!("sysprobe_cpu_usage_seconds_total{{namespace=\"\",pod=\"\",container=\"{name}\"}}")
    }

    /// Waits until Prometheus has the running agent's newest sample, while the cgroup is at rest.
    fn wait_for_export(&self) {
        let agent = self.agent.as_ref().expect("one runs");
        let of_cgroup = [("container", &*self.cgroup().name)];
        until("Prometheus has the newest total", || {
            let scrape = agent.scrape();
            let started = scrape.get("process_start_time_seconds", &[]);
            let exported = scrape.get("sysprobe_cpu_usage_seconds_total", &of_cgroup);
            // An agent that could not read all files in time has an older total.
            let is_newest = exported >= (self.truth_ns - self.truth_before_ns) as f64 / 1e9 - 1e-6;
            let is_of_this_agent = self.prometheus.value("process_start_time_seconds")? >= started - 0.001;
            let total = self.prometheus.value(&self.series())?;
            (is_newest && is_of_this_agent && (total - exported).abs() < 1e-6).then_some(())
        });
    }

    /// Uses CPU time while the agent runs, and waits until Prometheus has the sample.
    fn grow(&mut self, time: Duration) {
        let total = burn(self.cgroup(), time);
        self.truth_ns += total - self.counted_ns;
        self.counted_ns = total;
        self.wait_for_export();
    }

    fn replace_container(&mut self) {
        self.cgroup.take().expect("there is one").remove();
        self.cgroup = Some(Cgroup::new("burnt"));
        self.counted_ns = 0;
    }

    fn stop_agent(&mut self) {
        drop(self.agent.take());
    }

    fn start_agent(&mut self) {
        self.counted_ns = self.cgroup().usage_ns();
        self.truth_before_ns = self.truth_ns;
        let agent = Agent::start();
        self.prometheus.follow(agent.port);
        self.agent = Some(agent);
        self.wait_for_export();
    }

    /// `increase()` extrapolates by at most one interval at either end of its samples.
    fn assert_no_spike(&self, when: &str) {
        let growth = self.truth_ns as f64 / 1e9;
        let of = |function: &str| self.prometheus.value(&format!("{function}({}[10m])", self.series()));
        let increase = of("increase").expect("two samples");
        let samples = of("count_over_time").expect("some samples");
        let bound = growth * (samples + 2.0) / (samples - 1.0);
        figure(&format!("{when}: grown by {growth} s, increase() {increase}, {samples} samples"));
        assert!(increase <= bound, "{when}: {increase} of {growth}, in {samples} samples");
        assert!(increase >= growth * 0.95, "{when}: {increase} of {growth}");
    }
}

#[test]
fn no_restart_adds_to_what_grew() {
    let mut node = Node::new();
    node.grow(BURN);
    node.assert_no_spike("one agent, one container");

    node.stop_agent();
    node.start_agent();
    node.grow(BURN / 2);
    node.assert_no_spike("the agent was restarted");

    node.replace_container();
    node.grow(BURN / 2);
    node.assert_no_spike("the container was restarted");

    // Two containers while one agent runs: the next agent finds only the second.
    node.stop_agent();
    node.start_agent();
    node.grow(BURN / 4);
    node.assert_no_spike("the container was restarted, then the agent");

    node.stop_agent();
    node.replace_container();
    burn(node.cgroup(), BURN / 2);
    node.start_agent();
    node.grow(BURN / 4);
    node.assert_no_spike("the container was restarted while no agent ran");
}

#[test]
fn what_a_workload_does_before_its_first_scrape_counts() {
    let agent = Agent::start();
    let options =
        Options { created_timestamps: true, scrape_interval_seconds: Some(5), ..Options::default() };
    let prometheus = Prometheus::with(agent.port, &options);
    if !prometheus.knows_its_features() {
        let why = "this Prometheus does not ask since when series are counted; \
                   SYSPROBE_TEST_PROMETHEUS names another";
        left_out("growth before the first scrape", why);
        return;
    }
    until("Prometheus finds the agent up", || (prometheus.value("up")? > 0.5).then_some(()));
    // Created, busy and at rest between two scrapes; on a busy machine, a further scrape may still see it
    // grow.
    let cgroup = Cgroup::new("short");
    let truth = burn(&cgroup, BURN / 2) as f64 / 1e9;
    let series = format!("sysprobe_cpu_usage_seconds_total{{container=\"{}\"}}", cgroup.name);
    until("it was scraped twice", || {
        (prometheus.value(&format!("count_over_time({series}[10m])"))? > 2.5).then_some(())
    });
    thread::sleep(Duration::from_millis(100));
    let first = prometheus.value(&format!("min_over_time({series}[10m])")).expect("samples");
    let increase = prometheus.value(&format!("increase({series}[10m])")).expect("samples");
    figure(&format!(
        "before the first scrape: grown by {truth} s, first sample {first}, increase() {increase}"
    ));
    assert!(first.abs() < 1e-9, "a 0 was put before the first sample: {first}");
    // Three samples or more: it extrapolates by at most half an interval.
    assert!((0.95..1.6).contains(&(increase / truth)), "{increase} of {truth}");
    let created = "count({__name__=~\"sysprobe_.*_created\"})";
    assert_eq!(prometheus.value(created), None, "nothing was made a series of");
}
