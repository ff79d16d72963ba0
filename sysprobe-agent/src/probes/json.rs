//! What `sysprobe probes` has in its JSON form ([`Document`]) beyond what all have.

use schemars::JsonSchema;
use serde::Serialize;

pub use crate::show::page::document::Document;

use super::model::{LostRow, Order, ProgramRow, Window};
use crate::snapshot::{MapSample, Measuring, seconds};

/// The version of this form; it changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Numbers<'a> {
    /// Whether the kernel measured its programs for the agent. If not, runs and time stand still unless
    /// somebody else had it measure.
    pub measuring: MeasuringDocument,
    /// Why it refused; empty if it did not.
    pub reason: &'a str,
    /// How long the agent needed to collect its last numbers.
    pub collect_seconds: f64,
    /// All of them, in the order asked for.
    pub programs: Vec<ProgramDocument<'a>>,
    /// Those of the programs.
    pub maps: Vec<MapDocument<'a>>,
    /// What was lost since the agent started, by reason.
    pub lost: Vec<LostDocument<'a>>,
}

/// What became of the agent's wish to have programs measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasuringDocument {
    #[default]
    Off,
    On,
    Refused,
}

/// In the window, but for the totals since it was loaded.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ProgramDocument<'a> {
    pub program: &'a str,
    pub domain: &'a str,
    /// What it hooks, as in `tp_btf/sched_switch`.
    pub hook: &'a str,
    /// How often it ran.
    pub runs: u64,
    pub runs_per_second: Option<f64>,
    /// How long its runs were together.
    pub seconds: f64,
    /// `null` if it did not run.
    pub mean_seconds: Option<f64>,
    /// Of one CPU (0..1, more if it ran on several).
    pub cpu_ratio: Option<f64>,
    /// Runs that the kernel left out, because this or another program was at work on that CPU.
    pub missed: u64,
    /// Since it was loaded, as are the other two totals.
    pub total_runs: u64,
    pub total_seconds: f64,
    pub total_missed: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct MapDocument<'a> {
    pub map: &'a str,
    /// `null` where the kernel does not say, or the map cannot run full.
    pub entries: Option<u64>,
    /// How many entries it has room for.
    pub capacity: u64,
    /// Of the kernel's memory.
    pub bytes: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct LostDocument<'a> {
    pub domain: &'a str,
    pub reason: &'a str,
    /// In the window.
    pub count: u64,
    /// Since the agent started.
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
