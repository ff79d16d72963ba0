//! The CPU controller's numbers of cgroups, compared exactly with its files while nothing changes.

mod support;

use support::agent::Agent;
use support::cgroup::{Cgroup, Quota};
use support::figure;
use support::process::{self, Load, cpus};
use support::totals::workload;
use support::{at_rest, until};
use sysprobe_agent::snapshot::{CpuSample, Throttling};

const QUOTA: Quota = Quota { quota_us: 20_000, period_us: 100_000 };

/// Runs two threads that exceed the cgroup's quota until some periods were throttled; afterwards nothing
/// runs.
fn exhaust(cgroup: &Cgroup) {
    let load = Load::running(cgroup, &cpus(), || process::in_threads(2, process::spin));
    let start = cgroup.throttling().throttled_periods;
    until("some periods are throttled", || {
        (cgroup.throttling().throttled_periods >= start + 5).then_some(())
    });
    drop(load);
}

/// The files' numbers and the agent's, once both stay the same: the period timer continues for some periods
/// after the load has ended.
fn while_quiet(agent: &Agent, cgroup: &Cgroup) -> (Throttling, u64, CpuSample) {
    at_rest("the files and the agent's numbers stay the same", || {
        let cpu = workload(&agent.snapshot(), &cgroup.name)?.cpu.clone()?;
        Some((cgroup.throttling(), cgroup.usage_ns(), cpu))
    })
}

#[test]
fn throttling_and_usage_equal_the_files_exactly() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("held");
    cgroup.set_quota(QUOTA);
    for round in 1..=2 {
        exhaust(&cgroup);
        let (throttling, usage_ns, cpu) = while_quiet(&agent, &cgroup);
        figure(&format!("held, round {round}: {throttling:?}, usage {usage_ns}, agent {cpu:?}"));
        assert!(throttling.throttled_periods >= 5 && throttling.throttled_ns > 0, "{throttling:?}");
        assert_eq!(cpu.throttling, Some(throttling));
        assert_eq!(cpu.usage_ns, Some(usage_ns));
    }
}

#[test]
fn counters_begin_at_zero_when_the_agent_starts() {
    let cgroup = Cgroup::new("before");
    cgroup.set_quota(QUOTA);
    exhaust(&cgroup);
    let (before, used_before) =
        at_rest("the files stay the same", || Some((cgroup.throttling(), cgroup.usage_ns())));
    let agent = Agent::start();
    let (_, _, cpu) = while_quiet(&agent, &cgroup);
    assert_eq!((cpu.throttling, cpu.usage_ns), (Some(Throttling::default()), Some(0)));

    exhaust(&cgroup);
    let (throttling, usage_ns, cpu) = while_quiet(&agent, &cgroup);
    let grown = Throttling {
        periods: throttling.periods - before.periods,
        throttled_periods: throttling.throttled_periods - before.throttled_periods,
        throttled_ns: throttling.throttled_ns - before.throttled_ns,
    };
    figure(&format!("before: {before:?}, grown by {grown:?}, agent {cpu:?}"));
    assert_eq!((cpu.throttling, cpu.usage_ns), (Some(grown), Some(usage_ns - used_before)));
}

#[test]
fn settings_are_exported_as_they_are_set() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("settings");
    let labels = [("container", &*cgroup.name)];
    let has_burst = cgroup.set_burst(0);
    let unlimited = agent.scrape();
    assert_eq!(unlimited.value("sysprobe_cpu_quota_cores", &labels), None, "no limit, no series");
    assert_eq!(unlimited.value("sysprobe_cpu_throttled_periods_total", &labels), None);
    cgroup.set_quota(QUOTA);
    cgroup.set_weight_79();
    if has_burst {
        cgroup.set_burst(10_000);
    }
    let limited = agent.scrape();
    let is = |name: &str, value: f64| {
        let exported = limited.get(name, &labels);
        // Allows for the last digits of a decimal fraction.
        assert!((exported - value).abs() < 1e-9, "{name} is {exported}, not {value}");
    };
    is("sysprobe_cpu_quota_cores", 0.2);
    is("sysprobe_cpu_period_seconds", 0.1);
    is("sysprobe_cpu_weight", 79.0);
    is("sysprobe_cpu_throttled_periods_total", 0.0);
    match limited.value("sysprobe_cpu_burst_seconds", &labels) {
        Some(_) => is("sysprobe_cpu_burst_seconds", 0.01),
        None => assert!(!has_burst, "the kernel has a burst"),
    }
}

#[test]
fn a_group_that_goes_takes_nothing_away_from_its_totals() {
    let agent = Agent::start();
    let cgroup = Cgroup::new("going");
    cgroup.set_quota(QUOTA);
    exhaust(&cgroup);
    let (throttling, _, _) = while_quiet(&agent, &cgroup);
    let name = cgroup.name.clone();
    cgroup.remove();
    let snapshot = agent.snapshot();
    let cpu = workload(&snapshot, &name).and_then(|workload| workload.cpu.as_ref()).expect("in its grace");
    assert_eq!(cpu.throttling, Some(throttling));
}
