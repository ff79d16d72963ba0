//! The tables, and their differences: the command, the columns, the default sort key, and when a workload
//! counts as idle. Everything else is common to all tables.

use clap::ValueEnum;

use super::columns::{self, Column};
use crate::cli::rows::{Row, SortKey};
use crate::cli::tui::{chrome, steps};
use crate::snapshot::Snapshot;

/// What a table is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum View {
    /// CPU, throttling, waits for a CPU, switches.
    #[default]
    Cpu,
    /// Storage operations, and requests to block devices.
    Io,
    /// Traffic, retransmissions, round trips, drops.
    Net,
    /// Every kind of wait, side by side.
    Latency,
}

impl View {
    /// In the order of the Tab key.
    pub(super) const ALL: [Self; 4] = [Self::Cpu, Self::Io, Self::Net, Self::Latency];

    /// The command that shows it.
    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Cpu => "sysprobe top",
            Self::Io => "sysprobe io",
            Self::Net => "sysprobe net",
            Self::Latency => "sysprobe top --view latency",
        }
    }

    /// In the order in which they are shown.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Cpu => &columns::CPU,
            Self::Io => &columns::IO,
            Self::Net => &columns::NET,
            Self::Latency => &columns::LATENCY,
        }
    }

    /// Title, meaning and sort key of each column, for the documentation.
    pub(crate) fn described_columns(
        self,
    ) -> impl Iterator<Item = (&'static str, &'static str, Option<SortKey>)> {
        self.columns().iter().map(|column| (column.title, column.help, column.sort))
    }

    /// The default sort key.
    #[must_use]
    pub const fn default_sort(self) -> SortKey {
        match self {
            Self::Cpu => SortKey::Cpu,
            Self::Io => SortKey::Fsync99,
            Self::Net => SortKey::Srtt99,
            Self::Latency => SortKey::Received99,
        }
    }

    /// The number that its trend shows: a latency, in seconds.
    pub(super) const fn trend(self) -> SortKey {
        match self {
            Self::Cpu => SortKey::P99,
            Self::Io => SortKey::Fsync99,
            Self::Net => SortKey::Srtt99,
            Self::Latency => SortKey::Received99,
        }
    }

    /// Its sort keys: those of its columns, in their order, and the name.
    pub(super) fn sort_keys(self) -> Vec<SortKey> {
        let of_columns = self.columns().iter().filter_map(|column| column.sort);
        of_columns.chain([SortKey::Name]).collect()
    }

    /// The notice that some of its numbers cover only a sample of the packets, if so.
    pub(super) fn sampled(self, snapshot: &Snapshot) -> Option<String> {
        if self == Self::Latency { chrome::sampled(snapshot) } else { None }
    }

    /// Whether the workload had no activity that this table shows.
    pub(super) fn is_idle(self, row: &Row) -> bool {
        let operations = row.storage.and_then(|storage| storage.operation_rate());
        let requests = row.requests().and_then(|requests| requests.rate);
        let network = row.network.unwrap_or_default();
        let tcp = network.tcp.unwrap_or_default();
        let numbers = match self {
            Self::Cpu => {
                vec![
                    row.cpu_cores,
                    row.switch_rate(),
                    row.throttled_ratio,
                    row.wait_max,
                    operations,
                    requests,
                ]
            }
            Self::Io => vec![operations, requests],
            Self::Net => vec![
                network.received_rate,
                network.sent_rate,
                network.drop_rate,
                tcp.segment_rate,
                // A sender whose peer does not answer only retransmits.
                tcp.retransmitted_ratio,
                tcp.accept_queue,
                tcp.failure_rate,
                tcp.reset_rate,
                tcp.accept_drop_rate,
            ],
            Self::Latency => {
                vec![
                    row.received.and_then(|received| received.rate),
                    row.wait_max,
                    operations,
                    requests,
                    tcp.srtt_p99,
                ]
            }
        };
        numbers.into_iter().flatten().all(|number| number <= 0.0)
    }

    /// The text if all workloads are idle.
    pub(super) const fn nothing_happened(self) -> &'static str {
        match self {
            Self::Cpu => "Nothing ran: press a for idle workloads.",
            Self::Io => "No storage operation: press a for idle workloads.",
            Self::Net => "No traffic: press a for idle workloads.",
            Self::Latency => "Nothing waited: press a for idle workloads.",
        }
    }

    /// The next table, wrapping around.
    pub(super) fn next(self) -> Self {
        steps::further(&Self::ALL, self, 1)
    }
}

#[cfg(test)]
mod tests;
