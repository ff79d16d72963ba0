//! The tables that there are, and what makes one: its command, its columns, what it is sorted by, and when a workload
//! is idle in it. All else is the same for every table.

use super::{
    columns::{self, Column},
    rows::{Row, SortKey},
};

/// What a table is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topic {
    /// `sysprobe top`: CPU, and how often and how long data is flushed.
    #[default]
    Top,
    /// `sysprobe io`: storage operations.
    Io,
}

impl Topic {
    /// The command that shows it.
    pub(super) const fn command(self) -> &'static str {
        match self {
            Self::Top => "sysprobe top",
            Self::Io => "sysprobe io",
        }
    }

    /// In the order in which they are shown.
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Top => &columns::TOP,
            Self::Io => &columns::IO,
        }
    }

    /// What it is sorted by unless asked otherwise.
    #[must_use]
    pub const fn default_sort(self) -> SortKey {
        match self {
            Self::Top => SortKey::Cpu,
            Self::Io => SortKey::Fsync99,
        }
    }

    /// What it can be sorted by: its columns, in their order, and the name.
    pub(super) fn sort_keys(self) -> Vec<SortKey> {
        let of_columns = self.columns().iter().filter_map(|column| column.sort);
        of_columns.chain([SortKey::Name]).collect()
    }

    /// Whether nothing of what the table is about happened.
    pub(super) fn is_idle(self, row: &Row) -> bool {
        let of_cpu = [row.cpu_cores, row.switch_rate(), row.throttled_ratio, row.wait_max];
        let of_cpu = if self == Self::Top { &of_cpu[..] } else { &[] };
        let operations = row.storage.and_then(|storage| storage.operation_rate());
        let requests = row.requests().and_then(|requests| requests.rate);
        of_cpu.iter().chain([&operations, &requests]).flatten().all(|number| *number <= 0.0)
    }

    /// What to say where every workload is idle.
    pub(super) const fn nothing_happened(self) -> &'static str {
        match self {
            Self::Top => "Nothing ran: press a for idle workloads.",
            Self::Io => "No storage operation: press a for idle workloads.",
        }
    }

    /// The other table.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Top => Self::Io,
            Self::Io => Self::Top,
        }
    }
}

#[cfg(test)]
mod tests;
