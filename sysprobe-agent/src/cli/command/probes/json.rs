//! The part of the JSON form of `sysprobe probes` ([`Document`]) that is specific to this command.

use schemars::JsonSchema;
use serde::Serialize;

pub use crate::cli::page::document::Document;

use super::model::{LostRow, Order, ProgramRow, Window};
use crate::snapshot::{MapSample, Measuring, seconds};

/// The version of this form; it changes when a field is removed or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Numbers<'a> {
    /// Whether the kernel measured its BPF programs for the agent. If not, runs and times are 0 in the
    /// window, unless another program has enabled the statistics.
    pub measuring: MeasuringDocument,
    /// Why the kernel refused to measure. Empty unless `measuring` is `refused`.
    pub reason: &'a str,
    /// Seconds that the agent took to collect the numbers at the end of the window.
    pub collect_seconds: f64,
    /// All BPF programs of the agent, in the requested order.
    pub programs: Vec<ProgramDocument<'a>>,
    /// BPF maps of these programs, at the end of the window.
    pub maps: Vec<MapDocument<'a>>,
    /// Updates that were lost or could not be attributed, by domain and reason. A reason without any since
    /// the agent started is absent.
    pub lost: Vec<LostDocument<'a>>,
}

/// Whether the kernel's BPF statistics are on for the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuringDocument {
    /// The agent has not requested them.
    #[default]
    Off,
    /// The kernel measures each run.
    On,
    /// The kernel refused the agent's request.
    Refused,
}

/// One BPF program: its runs in the window, and totals since it was loaded.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ProgramDocument<'a> {
    /// Name of the program.
    pub program: &'a str,
    /// Domain that the program belongs to, such as `sched`.
    pub domain: &'a str,
    /// Where the program is attached, such as `tp_btf/sched_switch`. For a program that is not attached, how
    /// the agent runs it, such as `iter/task`.
    pub hook: &'a str,
    /// Number of runs in the window.
    pub runs: u64,
    /// Runs per second of the window. `None` if the kernel did not measure the programs.
    pub runs_per_second: Option<f64>,
    /// Total time of the runs in the window, in seconds.
    pub seconds: f64,
    /// Mean time of a run in the window, in seconds. `None` if the program did not run.
    pub mean_seconds: Option<f64>,
    /// Time of the runs as a share of one CPU (0..1, or more if the program ran on several CPUs). `None` if
    /// the kernel did not measure the programs.
    pub cpu_ratio: Option<f64>,
    /// Runs in the window that the kernel skipped, because the same program (for kprobes, any kprobe program)
    /// was already running on that CPU.
    pub missed: u64,
    /// Number of measured runs since the program was loaded.
    pub total_runs: u64,
    /// Total time of the measured runs since the program was loaded, in seconds.
    pub total_seconds: f64,
    /// Number of runs that the kernel skipped since the program was loaded.
    pub total_missed: u64,
}

/// One BPF map of the agent.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MapDocument<'a> {
    /// Name of the map, in lower case.
    pub map: &'a str,
    /// Number of entries in use. `None` if it is not counted, or if the map cannot fill up.
    pub entries: Option<u64>,
    /// Maximum number of entries; for a ring buffer, its size in bytes.
    pub capacity: u64,
    /// Kernel memory in bytes that the map was planned to take.
    pub bytes: u64,
}

/// Updates of a domain that were lost or could not be attributed, for one reason.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LostDocument<'a> {
    /// Name of the domain, such as `sched`.
    pub domain: &'a str,
    /// The reason, as in the label `reason` of `sysprobe_agent_lost_updates_total`.
    pub reason: &'a str,
    /// Number of lost updates in the window.
    pub count: u64,
    /// Number of lost updates since the agent started.
    pub total: u64,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(window: &'a Window, order: Order) -> Self {
        let (measuring, reason) = match &window.measuring {
            Measuring::On => (MeasuringDocument::On, ""),
            Measuring::Off => (MeasuringDocument::Off, ""),
            Measuring::Refused(reason) => (MeasuringDocument::Refused, reason.as_str()),
        };
        let programs = window.sorted(order);
        Self {
            measuring,
            reason,
            collect_seconds: window.collected_in.as_secs_f64(),
            programs: programs.into_iter().map(|row| program(window, row)).collect(),
            maps: window.maps.iter().map(map).collect(),
            lost: window.lost.iter().map(lost).collect(),
        }
    }
}

fn program<'a>(window: &Window, row: &'a ProgramRow) -> ProgramDocument<'a> {
    ProgramDocument {
        program: &row.total.program,
        domain: &row.total.domain,
        hook: &row.total.hook,
        runs: row.runs,
        runs_per_second: window.per_second(row.runs),
        seconds: seconds(row.run_ns),
        mean_seconds: row.mean_ns().map(|ns| ns / 1e9),
        cpu_ratio: window.cpu_share(row.run_ns),
        missed: row.missed,
        total_runs: row.total.runs,
        total_seconds: seconds(row.total.run_ns),
        total_missed: row.total.missed,
    }
}

fn map(map: &MapSample) -> MapDocument<'_> {
    MapDocument { map: &map.map, entries: map.entries, capacity: map.capacity, bytes: map.bytes }
}

fn lost(row: &LostRow) -> LostDocument<'_> {
    LostDocument { domain: &row.domain, reason: &row.reason, count: row.count, total: row.total }
}
