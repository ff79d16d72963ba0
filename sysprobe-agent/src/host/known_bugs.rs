//! Kernel bugs that make numbers wrong or keep them from us: a table, and which of its rows apply to a
//! kernel. Pure.
//!
//! A distribution fixes its kernels without changing their version. So a bug is recognised by members that
//! the kernel's types have or lack, if there are any, and by the version only if not.

use schemars::JsonSchema;
use serde::Serialize;

use super::Facts;
use super::release::is_before;

/// A kernel bug that affects the agent's metrics.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KnownBug {
    /// Stable name of the bug, for scripts.
    pub name: &'static str,
    /// Kernel versions with the bug. A distribution may have fixed it in its own kernels.
    pub kernels: &'static str,
    /// What the kernel does wrong.
    pub what: &'static str,
    /// Metrics that the bug affects, or would affect without the remedy.
    pub series: &'static [&'static str],
    /// What the agent does about it.
    pub remedy: &'static str,
    #[serde(skip)]
    sign: Sign,
}

/// How a bug is recognised. Members are named as in the table of probes.
#[derive(Debug, PartialEq, Eq)]
enum Sign {
    Has(&'static str),
    /// The feature with the bug exists, and the fix does not.
    Lacks {
        has: &'static str,
        lacks: &'static str,
    },
    /// The kernel's version is older than this.
    Before(u32, u32),
}

pub static KNOWN_BUGS: &[KnownBug] = &[
    KnownBug {
        name: "delayed_sleeper",
        kernels: "from 6.12 on",
        what: "A task that blocks when it has had more than its fair share of the CPU (it is not eligible, \
               EEVDF) stays on the run queue for a while. If it is migrated to another CPU meanwhile, the \
               kernel counts the rest of its sleep as a wait for that CPU (`run_delay` of \
               `/proc/PID/schedstat`).",
        series: &[
            "sysprobe_sched_wakeup_latency_seconds",
            "sysprobe_sched_wait_seconds_total",
            "sysprobe_sched_blame_seconds_total",
        ],
        remedy: "Such a wait is left out and counted in \
                 `sysprobe_agent_lost_updates_total{reason=\"delayed_sleeper\"}`. The attach modes `fentry` \
                 and `kprobe` see no migrations and cannot detect it.",
        sign: Sign::Has("task_struct.se.sched_delayed"),
    },
    KnownBug {
        name: "lru_starvation",
        kernels: "before 6.6.99; from 6.7 on, before 6.12.39; from 6.13 on, before 6.15.7",
        what: "Each CPU reserves 128 free entries of an LRU hash. With many CPUs and a small hash, a CPU \
               that needs more entries evicts some that are in use.",
        series: &["sysprobe_cpu_throttle_duration_seconds"],
        remedy: "Only throttled run queues are kept in such a hash: if an entry is evicted, the duration of \
                 that throttle is missing. Block requests and reclaims are kept in hashes that do not evict.",
        sign: Sign::Lacks { has: "bpf_lru.nr_scans", lacks: "bpf_lru.target_free" },
    },
    KnownBug {
        name: "task_storage_busy",
        kernels: "5.13 to 6.1",
        what: "A program cannot read any task's storage while it interrupts another program's call on task \
               storage on the same CPU.",
        series: &["sysprobe_sched_wakeup_latency_seconds", "sysprobe_sched_wait_seconds_total"],
        remedy: "The agent distinguishes this from an unknown task, counts it in \
                 `sysprobe_agent_lost_updates_total{reason=\"task_storage_busy\"}`, and catches up at the \
                 task's next switch. Waiting time that it can no longer split by cause has \
                 `cause=\"unknown\"`, or is charged to what ran on the task's last CPU.",
        sign: Sign::Lacks { has: "task_struct.bpf_storage", lacks: "btf_bpf_task_storage_get_recur.()" },
    },
    KnownBug {
        name: "kprobe_misses_untold",
        kernels: "before 6.7",
        what: "A kprobe that is hit while the handler of another one runs on the same CPU is skipped, and \
               the kernel does not count it.",
        series: &["sysprobe_agent_program_missed_total"],
        remedy: "Nothing: where kprobes are used, a few calls or segments are missed and not counted. \
                 Skipped runs of programs at typed tracepoints and `fentry` are counted.",
        sign: Sign::Lacks { has: "bpf_link_info.prog_id", lacks: "bpf_link_info.perf_event.kprobe.missed" },
    },
    KnownBug {
        name: "fragment_owner",
        kernels: "before 6.9, unless the fix for CVE-2024-26921 is backported",
        what: "While an IP fragment waits for reassembly, its `sk_buff.sk` holds a number, not a pointer.",
        series: &["sysprobe_network_drops_total"],
        remedy: "sysprobe reads it with a helper that fails safely if it is not a pointer; the drop is then \
                 `container=\"kernel\"`.",
        sign: Sign::Before(6, 9),
    },
];

/// The members by which bugs are recognised.
pub(super) fn wanted() -> impl Iterator<Item = &'static str> {
    KNOWN_BUGS.iter().flat_map(|bug| match bug.sign {
        Sign::Has(member) => vec![member],
        Sign::Lacks { has, lacks } => vec![has, lacks],
        Sign::Before(..) => Vec::new(),
    })
}

/// The rows that apply to a kernel. Without its types, only its version tells.
pub fn of(facts: &Facts) -> impl Iterator<Item = &'static KnownBug> {
    KNOWN_BUGS.iter().filter(|bug| bug.sign.is_there(facts))
}

impl Sign {
    fn is_there(&self, facts: &Facts) -> bool {
        let has = |member| facts.layout.as_ref().is_ok_and(|layout| layout.get(member).is_some());
        match *self {
            Self::Has(member) => has(member),
            Self::Lacks { has: feature, lacks } => has(feature) && !has(lacks),
            Self::Before(major, minor) => is_before(&facts.kernel, (major, minor)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::*;
    use crate::plan::fixture::facts;

    const RECUR: &str = "btf_bpf_task_storage_get_recur.()";
    const STORAGE: &str = "task_struct.bpf_storage";
    const DELAYED: &str = "task_struct.se.sched_delayed";
    const SCANS: &str = "bpf_lru.nr_scans";
    const TARGET: &str = "bpf_lru.target_free";
    const LINK: &str = "bpf_link_info.prog_id";
    const MISSED: &str = "bpf_link_info.perf_event.kprobe.missed";

    /// Kernel releases, which of these members their types have, and the expected bugs.
    const RECORDED: [(&str, &[&str], &[&str]); 5] = [
        (
            "5.10.0-46-cloud-amd64",
            &[SCANS, LINK],
            &["lru_starvation", "kprobe_misses_untold", "fragment_owner"],
        ),
        (
            "6.1.0-50-cloud-amd64",
            &[SCANS, LINK, STORAGE],
            &["lru_starvation", "task_storage_busy", "kprobe_misses_untold", "fragment_owner"],
        ),
        (
            "6.12.117+deb12-cloud-amd64",
            &[SCANS, TARGET, LINK, MISSED, STORAGE, RECUR, DELAYED],
            &["delayed_sleeper"],
        ),
        ("6.18.44-fc-v657", &[SCANS, TARGET, LINK, MISSED, STORAGE, RECUR, DELAYED], &["delayed_sleeper"]),
        (
            "7.3.4+deb13-cloud-amd64",
            &[SCANS, TARGET, LINK, MISSED, STORAGE, RECUR, DELAYED],
            &["delayed_sleeper"],
        ),
    ];

    #[test]
    fn recorded_kernels_have_the_bugs_that_they_are_known_for() {
        for (kernel, members, expected) in RECORDED {
            let layout = Ok(Layout::from_pairs(members.iter().map(|member| (*member, 0))));
            let facts = Facts { kernel: kernel.to_owned(), layout, ..facts() };
            let names: Vec<_> = of(&facts).map(|bug| bug.name).collect();
            assert_eq!(names, expected, "{kernel}");
        }
    }

    #[test]
    fn without_types_only_the_version_speaks() {
        let names = |kernel: &str| {
            let facts = Facts { kernel: kernel.to_owned(), layout: Err("no BTF".to_owned()), ..facts() };
            of(&facts).map(|bug| bug.name).collect::<Vec<_>>()
        };
        assert_eq!(names("6.8.0-31-generic"), ["fragment_owner"]);
        assert!(names("6.10.3").is_empty() && names("").is_empty());
    }

    #[test]
    fn names_are_unique_and_series_are_in_the_table_of_metrics() {
        for (at, bug) in KNOWN_BUGS.iter().enumerate() {
            assert!(KNOWN_BUGS[..at].iter().all(|other| other.name != bug.name), "{}", bug.name);
            for series in bug.series {
                let known = crate::metrics::table::all().any(|metric| metric.full_name() == *series);
                assert!(known, "{}: there is no {series}", bug.name);
            }
        }
    }
}
