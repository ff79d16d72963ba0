//! The flags of the tables, beyond those of every command with windows.

use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::{selection::Selection, views::View};
use crate::cli::args::WindowArgs;
use crate::cli::rows::SortKey;
use crate::cli::scope::Scope;

/// The flags of `sysprobe top`.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// View to start with.
    #[arg(long, value_name = "VIEW", value_enum, default_value_t)]
    pub view: View,
    /// Column to sort by, largest first; `name` sorts from a to z. Each view has its own columns.
    #[arg(long, value_name = "COLUMN", value_enum, hide_possible_values = true)]
    pub sort: Option<SortKey>,
}

/// The flags of `sysprobe io`.
#[derive(Args, Clone, Debug)]
pub struct IoArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Column to sort by, largest first; `name` sorts from a to z.
    #[arg(long, value_name = "COLUMN", value_parser = sort_parser(View::Io), default_value = "fsync99")]
    pub sort: SortKey,
}

/// The flags of `sysprobe net`.
#[derive(Args, Clone, Debug)]
pub struct NetArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Column to sort by, largest first; `name` sorts from a to z.
    #[arg(long, value_name = "COLUMN", value_parser = sort_parser(View::Net), default_value = "srtt99")]
    pub sort: SortKey,
}

/// The flags that all tables have.
#[derive(Args, Clone, Debug)]
pub struct TableArgs {
    #[command(flatten)]
    pub window: WindowArgs,
    #[command(flatten)]
    pub scope: Scope,
    /// Only workloads whose namespace, pod or container contains this text, ignoring case.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Include idle workloads.
    #[arg(long)]
    pub all: bool,
    /// Show one row per container instead of one per pod.
    #[arg(long)]
    pub containers: bool,
}

pub const TOP_HELP: &str = "Which workload is in trouble right now, and with what? One row per pod, systemd \
    unit or cgroup: CPU, throttling, run-queue latency, context switches.\n\n\
    Example: the ten workloads that waited longest for a CPU in the next five seconds\n  \
    sysprobe top --once --interval 5 --sort p99 | head -12";
pub const IO_HELP: &str = "Whose storage is slow, and is it the file system or the disk? One row per \
    workload: reads, writes, fsyncs, opens, errors, and requests to block devices.\n\n\
    Example: the ten workloads whose fsyncs took longest in the next five seconds\n  \
    sysprobe io --once --interval 5 | head -12";

pub const NET_HELP: &str = "Is it the network? One row per workload: traffic, retransmissions, round-trip \
    times, connect latency, failures and drops.\n\n\
    Example: the ten workloads with the longest round-trip times in the next five seconds\n  \
    sysprobe net --once --interval 5 | head -12";

impl TopArgs {
    /// Fails with a sentence if the view has no such column.
    pub fn selection(&self) -> Result<Selection, String> {
        let sort = self.sort.unwrap_or(self.view.default_sort());
        let keys = self.view.sort_keys();
        if !keys.contains(&sort) {
            let words: Vec<_> = keys.iter().map(word).collect();
            let (sort, view) = (word(&sort), word(&self.view));
            return Err(format!("the view `{view}` has no column `{sort}`: it has {}", words.join(", ")));
        }
        Ok(self.table.selection(self.view, sort))
    }
}

impl NetArgs {
    #[must_use]
    pub fn selection(&self) -> Selection {
        self.table.selection(View::Net, self.sort)
    }
}

impl IoArgs {
    #[must_use]
    pub fn selection(&self) -> Selection {
        self.table.selection(View::Io, self.sort)
    }
}

impl TableArgs {
    fn selection(&self, view: View, sort: SortKey) -> Selection {
        let (scope, filter) = (self.scope.clone(), self.filter.clone());
        let (all, pods) = (self.all, !self.containers);
        Selection { view, sort, scope, filter, all, pods, ..Selection::default() }
    }
}

/// The word that a user types.
fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Accepts the names of this table's columns.
fn sort_parser(view: View) -> impl TypedValueParser<Value = SortKey> {
    let words = view.sort_keys().into_iter().filter_map(|key| key.to_possible_value());
    PossibleValuesParser::new(words).try_map(|word| SortKey::from_str(&word, false))
}

#[cfg(test)]
mod tests;
