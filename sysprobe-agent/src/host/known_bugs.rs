//! Bugs of kernels that make numbers wrong, or keep them from us: a table, and which of its rows hold for a
//! kernel. Pure.
//!
//! A distribution mends its kernels without changing what they call themselves, so a row is told by what the
//! kernel's types have or lack wherever they give it away, and by the version only where they do not.

use schemars::JsonSchema;
use serde::Serialize;

use super::Facts;

/// One bug, and what it does to our numbers.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KnownBug {
    /// For scripts; it stays the same.
    pub name: &'static str,
    /// The versions that have it, unless their distribution mended it.
    pub kernels: &'static str,
    /// What the kernel does.
    pub what: &'static str,
    /// The series that suffer, or would.
    pub series: &'static [&'static str],
    /// What the agent does about it.
    pub remedy: &'static str,
    #[serde(skip)]
    sign: Sign,
}

/// What gives a bug away. Members are named as in the table of probes.
#[derive(Debug, PartialEq, Eq)]
enum Sign {
    Has(&'static str),
    /// What mended it is not there, and what has the bug is.
    Lacks {
        has: &'static str,
        lacks: &'static str,
    },
    /// The kernel calls itself older than this.
    Before(u32, u32),
}

pub static KNOWN_BUGS: &[KnownBug] = &[
    KnownBug {
        name: "delayed_sleeper",
        kernels: "from 6.12 on",
        what: "A task that blocks before its turn stays on the run queue for a while. If it is moved to \
               another CPU meanwhile, its sleep from then on is counted as a wait for that CPU (`run_delay` \
               of `/proc/PID/schedstat`).",
        series: &[
            "sysprobe_sched_wakeup_latency_seconds",
            "sysprobe_sched_wait_seconds_total",
            "sysprobe_sched_blame_seconds_total",
        ],
        remedy: "Such a wait is left out and counted in \
                 `sysprobe_agent_lost_updates_total{reason=\"delayed_sleeper\"}`. By `fentry` and `kprobe`, \
                 which see no moves, it is not recognised.",
        sign: Sign::Has("task_struct.se.sched_delayed"),
    },
    KnownBug {
        name: "lru_starvation",
        kernels: "before 6.6.99 and 6.15.7",
        what: "Each CPU sets 128 free entries of an LRU hash aside. With many CPUs and a small hash, one \
               that needs more pushes out entries that are in use.",
        series: &["sysprobe_cpu_throttle_duration_seconds"],
        remedy: "Only throttled queues are kept in such a hash: the length of a throttling whose entry was \
                 pushed out is missing. Requests to block devices and reclaims lie in hashes that push \
                 nothing out.",
        sign: Sign::Lacks { has: "bpf_lru.nr_scans", lacks: "bpf_lru.target_free" },
    },
    KnownBug {
        name: "task_storage_busy",
        kernels: "5.13 to 6.1",
        what: "A program finds no task's storage as long as another program's call on any task's storage is \
               under way below it on that CPU.",
        series: &["sysprobe_sched_wakeup_latency_seconds", "sysprobe_sched_wait_seconds_total"],
        remedy: "It is told from a task that is not known. The next booking makes up for it; what cannot be \
                 divided then is `cause=\"unknown\"`, or charged to the task's last CPU, and counted in \
                 `sysprobe_agent_lost_updates_total{reason=\"task_storage_busy\"}`.",
        sign: Sign::Lacks { has: "task_struct.bpf_storage", lacks: "btf_bpf_task_storage_get_recur.()" },
    },
    KnownBug {
        name: "kprobe_misses_untold",
        kernels: "before 6.7",
        what: "A kprobe that is hit while another one's handler runs on the same CPU is not run, and the \
               kernel does not say so.",
        series: &["sysprobe_agent_program_missed_total"],
        remedy: "None: through kprobes a few calls or segments are missing uncounted. Typed tracepoints and \
                 `fentry` tell.",
        sign: Sign::Lacks { has: "bpf_link_info.prog_id", lacks: "bpf_link_info.perf_event.kprobe.missed" },
    },
    KnownBug {
        name: "fragment_owner",
        kernels: "before 6.9, unless CVE-2024-26921 is mended",
        what: "`sk_buff.sk` of an IP fragment that waits for the others is a number and no address.",
        series: &["sysprobe_network_drops_total"],
        remedy: "It is read by a helper that may fail: such a drop is `container=\"kernel\"`.",
        sign: Sign::Before(6, 9),
    },
];

/// The members that tell.
pub(super) fn wanted() -> impl Iterator<Item = &'static str> {
    KNOWN_BUGS.iter().flat_map(|bug| match bug.sign {
        Sign::Has(member) => vec![member],
        Sign::Lacks { has, lacks } => vec![has, lacks],
        Sign::Before(..) => Vec::new(),
    })
}

/// The rows that hold for a kernel. Without its types nothing but its version is known of it.
pub fn of(facts: &Facts) -> impl Iterator<Item = &'static KnownBug> {
    KNOWN_BUGS.iter().filter(|bug| bug.sign.is_there(facts))
}

impl Sign {
    fn is_there(&self, facts: &Facts) -> bool {
        let has = |member| facts.layout.as_ref().is_ok_and(|layout| layout.get(member).is_some());
        match *self {
            Self::Has(member) => has(member),
            Self::Lacks { has: feature, lacks } => has(feature) && !has(lacks),
            Self::Before(major, minor) => version(&facts.kernel).is_some_and(|own| own < (major, minor)),
        }
    }
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
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

    /// What kernels call themselves, and which of these members they have, as seen in their types.
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
