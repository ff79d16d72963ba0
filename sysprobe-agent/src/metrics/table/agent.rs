//! The agent's metrics about itself.

use super::{Kind, Metric, Unit, seconds};
use crate::metrics::emit::Emit;
use crate::metrics::process;
use crate::snapshot::{ScanSample, Snapshot, WorkloadKind};

const SOURCE: &str = "the agent";

pub(super) static AGENT: &[Metric] = &[
    Metric {
        name: "sysprobe_agent_build_info",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Always 1; `version` is the version of the running agent.",
        labels: &["version"],
        source: SOURCE,
        emit: |_, emit| emit.value(&[("version", env!("CARGO_PKG_VERSION"))], 1.0),
    },
    Metric {
        name: "sysprobe_agent_domain_up",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "1 while a domain works, 0 while it is off or paused; sysprobe_agent_domain_info says why.",
        labels: &["domain"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for domain in &snapshot.domains {
                emit.value(&[("domain", &domain.name)], f64::from(u8::from(domain.up)));
            }
        },
    },
    Metric {
        name: "sysprobe_agent_domain_info",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Always 1; `hook` is the attach mode of a domain, `reason` says why it is off or what it \
               lacks.",
        labels: &["domain", "hook", "reason"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for domain in &snapshot.domains {
                let labels = [("domain", &*domain.name), ("hook", &domain.mode), ("reason", &domain.reason)];
                emit.value(&labels, 1.0);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_shed_info",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "1 while a domain is paused because it would cost the node too much; its counters do not \
               advance. The label `reason` names the limit that was exceeded.",
        labels: &["domain", "reason"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for domain in snapshot.domains.iter().filter(|domain| domain.is_shed()) {
                emit.value(&[("domain", &*domain.name), ("reason", &domain.reason)], 1.0);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_program_runs",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Runs of a BPF program. Stays 0 unless the kernel's BPF statistics are on.",
        labels: &["program"],
        source: "bpf_prog_info.run_cnt",
        emit: |snapshot, emit| {
            for program in &snapshot.agent.programs {
                emit.value(&[("program", &program.program)], program.runs as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_program_run",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Time spent in a BPF program. Stays 0 unless the kernel's BPF statistics are on.",
        labels: &["program"],
        source: "bpf_prog_info.run_time_ns",
        emit: |snapshot, emit| {
            for program in &snapshot.agent.programs {
                emit.value(&[("program", &program.program)], seconds(program.run_ns));
            }
        },
    },
    Metric {
        name: "sysprobe_agent_program_missed",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Runs of a BPF program that the kernel skipped because the same program (for kprobes, any \
               kprobe program) was already running on that CPU.",
        labels: &["program"],
        source: "bpf_prog_info.recursion_misses, bpf_link_info.perf_event.kprobe.missed",
        emit: |snapshot, emit| {
            for program in &snapshot.agent.programs {
                emit.value(&[("program", &program.program)], program.missed as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_map_entries",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Entries in use of a BPF map. Only maps that can become full have a series. Maps of operations \
               in progress are counted every five minutes.",
        labels: &["map"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for map in &snapshot.agent.maps {
                if let Some(entries) = map.entries {
                    emit.value(&[("map", &map.map)], entries as f64);
                }
            }
        },
    },
    Metric {
        name: "sysprobe_agent_map_capacity",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Capacity of a BPF map, in entries.",
        labels: &["map"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for map in &snapshot.agent.maps {
                emit.value(&[("map", &map.map)], map.capacity as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_storage",
        unit: Unit::Bytes,
        kind: Kind::Gauge,
        help: "Upper bound of the kernel memory of a domain's BPF task or socket storage. It is charged to \
               the agent's memory cgroup.",
        labels: &["domain", "kind"],
        source: "values created, and the present number of tasks (/proc/loadavg) and sockets \
                 (/sys/kernel/slab)",
        emit: |snapshot, emit| {
            for storage in &snapshot.agent.storages {
                emit.value(&[("domain", &storage.domain), ("kind", &storage.kind)], storage.bytes as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_map",
        unit: Unit::Bytes,
        kind: Kind::Gauge,
        help: "Planned kernel memory of a BPF map.",
        labels: &["map"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for map in &snapshot.agent.maps {
                emit.value(&[("map", &map.map)], map.bytes as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_lost_updates",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Updates that were lost or could not be attributed.",
        labels: &["domain", "reason"],
        source: "counted in the BPF programs and in the agent",
        emit: |snapshot, emit| {
            for lost in &snapshot.agent.lost_updates {
                emit.value(&[("domain", &lost.domain), ("reason", &lost.reason)], lost.count as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_cgroup_events",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Cgroups created (born) and removed (died), as counted by the BPF programs \
               (seen_by=\"kernel\") and as received by the agent (seen_by=\"agent\").",
        labels: &["event", "seen_by"],
        source: "tracepoints cgroup_mkdir and cgroup_rmdir",
        emit: |snapshot, emit| {
            let agent = &snapshot.agent;
            for (event, seen_by, count) in [
                ("born", "kernel", agent.cgroups_born_in_kernel),
                ("died", "kernel", agent.cgroups_died_in_kernel),
                ("born", "agent", agent.cgroups_born),
                ("died", "agent", agent.cgroups_died),
            ] {
                emit.value(&[("event", event), ("seen_by", seen_by)], count as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_unattributed",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "CPU time and waits that are attributed to `unknown`: the cgroup could not be determined, or \
               had no slot.",
        labels: &["domain"],
        source: SOURCE,
        emit: |snapshot, emit| {
            let unknown = snapshot.workloads.iter().filter(|row| row.kind == WorkloadKind::Unknown);
            let time =
                unknown.filter_map(|row| row.sched.as_ref()).map(|sched| sched.on_cpu_ns + sched.wait.sum_ns);
            emit.value(&[("domain", "sched")], seconds(time.sum()));
        },
    },
    Metric {
        name: "sysprobe_agent_pod_watch_age",
        unit: Unit::Seconds,
        kind: Kind::Gauge,
        help: "Time since the last message from the watch on pods or, if the source is cri, since the last \
               list of pods. Absent without such a source.",
        labels: &[],
        source: "the API server's watch and its bookmarks, the container runtime's last list",
        emit: |snapshot, emit| emit.optional(snapshot.agent.pod_watch_age_ns.map(seconds)),
    },
    Metric {
        name: "sysprobe_agent_pod_source_up",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "1 if a source of pod names answers; `sysprobe check` says why one does not.",
        labels: &["source"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for source in &snapshot.agent.pod_sources {
                emit.value(&[("source", &source.source)], f64::from(u8::from(source.up)));
            }
        },
    },
    Metric {
        name: "sysprobe_agent_workloads",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Workloads that are exported now, including ended ones during grace_seconds.",
        labels: &["kind"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for (kind, count) in snapshot.workloads_by_kind() {
                emit.value(&[("kind", kind)], count as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_scrape_duration",
        unit: Unit::Seconds,
        kind: Kind::Gauge,
        help: "Time to collect this scrape, without its encoding.",
        labels: &[],
        source: SOURCE,
        emit: |snapshot, emit| emit.value(&[], seconds(snapshot.agent.collect_ns)),
    },
    Metric {
        name: "sysprobe_agent_interference_lost",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "Waiting time whose pair of cgroups (the waiting one and the running one) could not be \
               recorded, because the BPF map was full. It is part of the cause `unknown`.",
        labels: &[],
        source: "counted in the BPF programs",
        emit: |snapshot, emit| emit.value(&[], seconds(snapshot.agent.interference_lost_ns)),
    },
    Metric {
        name: "sysprobe_agent_scans",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Passes of each scan: open files or tasks when the agent starts (names that end in _seed), \
               tasks (sched_scan), sockets (tcp_scan, or tcp_scan_fd where the kernel refuses iterators over \
               maps), the cgroup hierarchy (cgroups), cgroup files (cgroup_files).",
        labels: &["scan"],
        source: SOURCE,
        emit: |snapshot, emit| each_scan(snapshot, emit, |scan| scan.passes as f64),
    },
    Metric {
        name: "sysprobe_agent_scan_duration",
        unit: Unit::Seconds,
        kind: Kind::Gauge,
        help: "Elapsed time of the last pass of a scan, which runs in parts with pauses between them. Scans \
               of sockets use at most 1 % of a CPU, so socket data can be as old as 100 times the CPU time \
               of a scan, plus the scrape interval.",
        labels: &["scan"],
        source: SOURCE,
        emit: |snapshot, emit| each_scan(snapshot, emit, |scan| seconds(scan.last_ns)),
    },
    Metric {
        name: "sysprobe_agent_scan_truncated",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Passes of a scan that ended early, for lack of time or access. Socket counts are then from \
               the last complete pass, and thread counts are missing. After a truncated pass over cgroup \
               files, some cgroups keep the numbers of an earlier scrape.",
        labels: &["scan"],
        source: SOURCE,
        emit: |snapshot, emit| each_scan(snapshot, emit, |scan| scan.truncated as f64),
    },
    Metric {
        name: "sysprobe_agent_refused_requests",
        unit: Unit::None,
        kind: Kind::Counter,
        help: "Requests answered with 503, including those of probes and commands, by reason: starting; \
               engine_hangs (a system call of the thread that reads maps and files does not return); \
               source_dead (a source of pod names needs a restart of the agent); no_place (too many clients \
               at once, in total or from one address); late (not ready within the client's timeout).",
        labels: &["reason"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for refused in &snapshot.agent.refused {
                emit.value(&[("reason", &refused.reason)], refused.count as f64);
            }
        },
    },
    Metric {
        name: "sysprobe_agent_series",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Series of a family in this response. A classic histogram has one for each bucket, and its \
               count and sum; a native histogram is one.",
        labels: &["family"],
        source: SOURCE,
        emit: |_, emit| emit.each_family(),
    },
    Metric {
        name: "sysprobe_agent_left_out_series",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Series left out of this response because their workloads reached metrics.series_per_workload.",
        labels: &[],
        source: SOURCE,
        emit: |_, emit| emit.value(&[], emit.left_out() as f64),
    },
    Metric {
        name: "sysprobe_agent_hidden_workloads",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Workloads merged into container=\"other\": unwanted (excluded by metrics.namespaces or \
               metrics.pods), over_budget (metrics.workloads other workloads already had series when these \
               appeared; these get series when there is room).",
        labels: &["reason"],
        source: SOURCE,
        emit: |snapshot, emit| {
            for (reason, count) in &snapshot.agent.hidden {
                emit.value(&[("reason", reason)], *count as f64);
            }
        },
    },
    Metric {
        name: "process_cpu",
        unit: Unit::Seconds,
        kind: Kind::Counter,
        help: "CPU time of the agent, user and system.",
        labels: &[],
        source: "/proc/self/stat",
        emit: |_, emit| emit.optional(process::cpu_seconds()),
    },
    Metric {
        name: "process_resident_memory",
        unit: Unit::Bytes,
        kind: Kind::Gauge,
        help: "Resident memory of the agent.",
        labels: &[],
        source: "/proc/self/stat",
        emit: |_, emit| emit.optional(process::resident_bytes()),
    },
    Metric {
        name: "process_open_fds",
        unit: Unit::None,
        kind: Kind::Gauge,
        help: "Open file descriptors of the agent.",
        labels: &[],
        source: "/proc/self/fd",
        emit: |_, emit| emit.optional(process::open_descriptors()),
    },
    Metric {
        name: "process_start_time",
        unit: Unit::Seconds,
        kind: Kind::Gauge,
        help: "When the agent started, since the Unix epoch.",
        labels: &[],
        source: "/proc/self/stat, /proc/stat",
        emit: |_, emit| emit.optional(process::start_time_seconds()),
    },
];

fn each_scan(snapshot: &Snapshot, emit: &mut Emit, value: impl Fn(&ScanSample) -> f64) {
    for scan in &snapshot.agent.scans {
        emit.value(&[("scan", &scan.scan)], value(scan));
    }
}
