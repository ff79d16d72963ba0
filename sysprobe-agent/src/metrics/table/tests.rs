//! The table: names, help, labels.

use std::collections::HashSet;

use super::*;

#[test]
fn names_are_unique_and_end_as_their_kind_and_unit_demand() {
    let mut seen = HashSet::new();
    for metric in all() {
        let name = metric.full_name();
        assert!(seen.insert(name.clone()), "{name} twice");
        assert!(name.starts_with("sysprobe_") || name.starts_with("process_"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        assert!(
            !metric.name.ends_with("_seconds") && !metric.name.ends_with("_total"),
            "{name}: appended anyway"
        );
    }
}

#[test]
fn help_is_a_sentence_and_labels_come_from_a_closed_list() {
    let known =
        ["namespace", "pod", "container", "kind", "version", "domain", "hook", "reason", "program", "map"];
    for metric in all() {
        assert!(metric.help.ends_with('.'), "{}", metric.name);
        for label in metric.labels {
            assert!(
                known.contains(label)
                    || [
                        "event",
                        "seen_by",
                        "source",
                        "scan",
                        "operation",
                        "device",
                        "direction",
                        "state",
                        "window",
                        "protocol",
                        "stage",
                        "family",
                        "cause",
                        "culprit_namespace",
                        "culprit_pod",
                        "culprit_container"
                    ]
                    .contains(label),
                "{}: {label}",
                metric.name
            );
        }
    }
}

#[test]
fn the_names_that_dashboards_rely_on_are_there() {
    let names: HashSet<String> = all().map(Metric::full_name).collect();
    for name in [
        "sysprobe_sched_wakeup_latency_seconds",
        "sysprobe_sched_wait_seconds_total",
        "sysprobe_sched_threads",
        "sysprobe_sched_load_average",
        "sysprobe_sched_blame_seconds_total",
        "sysprobe_sched_context_switches_total",
        "sysprobe_cpu_usage_seconds_total",
        "sysprobe_cpu_periods_total",
        "sysprobe_cpu_throttled_periods_total",
        "sysprobe_cpu_throttled_seconds_total",
        "sysprobe_cpu_quota_cores",
        "sysprobe_cpu_period_seconds",
        "sysprobe_cpu_burst_seconds",
        "sysprobe_cpu_weight",
        "sysprobe_tcp_sent_segments_total",
        "sysprobe_tcp_retransmitted_segments_total",
        "sysprobe_tcp_srtt_seconds",
        "sysprobe_tcp_rtt_variance_seconds",
        "sysprobe_tcp_connect_latency_seconds",
        "sysprobe_tcp_connect_failures_total",
        "sysprobe_tcp_accept_queue_drops_total",
        "sysprobe_tcp_accept_queue_overflows_total",
        "sysprobe_tcp_resets_total",
        "sysprobe_tcp_sockets",
        "sysprobe_network_receive_bytes_total",
        "sysprobe_network_receive_packets_total",
        "sysprobe_network_transmit_bytes_total",
        "sysprobe_network_transmit_packets_total",
        "sysprobe_memory_usage_bytes",
        "sysprobe_memory_working_set_bytes",
        "sysprobe_memory_limit_bytes",
        "sysprobe_memory_oom_kills_total",
        "sysprobe_memory_major_faults_total",
        "sysprobe_memory_direct_reclaim_seconds_total",
        "sysprobe_memory_direct_reclaims_total",
        "sysprobe_pressure_cpu_waiting_seconds_total",
        "sysprobe_pressure_cpu_stalled_seconds_total",
        "sysprobe_pressure_memory_waiting_seconds_total",
        "sysprobe_pressure_memory_stalled_seconds_total",
        "sysprobe_pressure_io_waiting_seconds_total",
        "sysprobe_pressure_io_stalled_seconds_total",
        "sysprobe_agent_program_run_seconds_total",
        "sysprobe_agent_map_bytes",
        "sysprobe_agent_unattributed_seconds_total",
        "process_cpu_seconds_total",
    ] {
        assert!(names.contains(name), "{name}");
    }
}
