//! The flags of the tables beyond those that every command with windows has.

use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};

use super::{
    rows::{Selection, SortKey},
    topic::Topic,
};
use crate::show::args::WindowArgs;

/// The flags of `sysprobe top`.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Sort by this column, largest first (`name`: from a to z).
    #[arg(long, value_name = "COLUMN", value_parser = sort_parser(Topic::Top), default_value = "cpu")]
    pub sort: SortKey,
}

/// The flags of `sysprobe io`.
#[derive(Args, Clone, Debug)]
pub struct IoArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Sort by this column, largest first (`name`: from a to z).
    #[arg(long, value_name = "COLUMN", value_parser = sort_parser(Topic::Io), default_value = "fsync99")]
    pub sort: SortKey,
}

/// The flags that all tables have.
#[derive(Args, Clone, Debug)]
pub struct TableArgs {
    #[command(flatten)]
    pub window: WindowArgs,
    /// Show only workloads whose namespace, pod or container contains this text, in upper or lower case.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Show workloads in which nothing happened, too.
    #[arg(long)]
    pub all: bool,
}

pub const TOP_EXAMPLE: &str = "Example: the ten workloads that waited longest for a CPU in the next five seconds\n  \
    sysprobe top --once --interval 5 --sort p99 | head -12";
pub const IO_EXAMPLE: &str = "Example: the ten workloads whose fsyncs took longest in the next five seconds\n  \
    sysprobe io --once --interval 5 | head -12";

impl TopArgs {
    #[must_use]
    pub fn selection(&self) -> Selection {
        self.table.selection(Topic::Top, self.sort)
    }
}

impl IoArgs {
    #[must_use]
    pub fn selection(&self) -> Selection {
        self.table.selection(Topic::Io, self.sort)
    }
}

impl TableArgs {
    fn selection(&self, topic: Topic, sort: SortKey) -> Selection {
        Selection { topic, sort, reverse: false, filter: self.filter.clone(), all: self.all }
    }
}

/// Takes the words for the columns of this table.
fn sort_parser(topic: Topic) -> impl TypedValueParser<Value = SortKey> {
    let words = topic.sort_keys().into_iter().filter_map(|key| key.to_possible_value());
    PossibleValuesParser::new(words).try_map(|word| SortKey::from_str(&word, false))
}

#[cfg(test)]
mod tests;
