//! Columns, and the choice of those that fit into a width. Each table has one list of them (`cpu`, `storage`,
//! ...): the plain table, the live table, the help and the sort keys take everything from it.

use super::{selection::Selection, sparkline};
use crate::cli::format;
use crate::cli::rows::{Row, SortKey};

mod cpu;
mod latency;
mod network;
mod storage;

pub(super) use cpu::CPU;
pub(super) use latency::LATENCY;
pub(super) use network::NET;
pub(super) use storage::IO;

/// A column of numbers, right-aligned. The name is not one of them: it gets the width that they leave.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Room for the content, and for the title with a sort marker; the minimum if the column can grow.
    width: usize,
    pub(super) sort: Option<SortKey>,
    /// Columns of lower rank are dropped later when space is scarce.
    rank: u8,
    /// Shown only when asked for or when there is plenty of space.
    extra: bool,
    pub(super) help: &'static str,
    pub(super) content: Content,
}

/// What a cell shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Text(fn(&Row) -> String),
    /// A sparkline of the table's main number, over as many of the last windows as there is space for. Only a
    /// live table has one.
    Trend,
}

pub(super) const NAME_TITLE: &str = "NAME";
/// Ends a number that calls for attention, so that colour is never the only sign.
pub(super) const ALARM: char = '!';
/// Fewer windows are no trend.
const LEAST_TREND: usize = 16;
/// A name is not recognizable in fewer columns.
const SHORTEST_NAME: usize = 16;
/// Extra columns are welcome only beside a name that is mostly whole.
const ROOMY_NAME: usize = 40;
/// The eye loses the line between a name and numbers that are further away.
const LONGEST_NAME: usize = 60;

/// The table's main number over time: the last column of every table.
const fn trend(rank: u8, extra: bool, help: &'static str) -> Column {
    Column { title: "TREND", width: LEAST_TREND, sort: None, rank, extra, help, content: Content::Trend }
}

fn alarming(text: String, is_alarming: bool) -> String {
    if is_alarming { format!("{text}{ALARM}") } else { text }
}

/// The way in which a table is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// Whether extra columns are requested.
    pub(super) wide: bool,
    /// Whether the table is live, so that there is a trend.
    pub(super) live: bool,
}

/// The columns that are shown in a given width.
#[derive(Debug)]
pub(super) struct Layout {
    /// Columns for the name.
    pub(super) name: usize,
    pub(super) columns: Vec<Placed>,
}

/// A column with the width that it got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) column: &'static Column,
    pub(super) width: usize,
}

impl Layout {
    /// Adds columns by rank as long as the name keeps enough space. The sort column comes first, and is there
    /// even if the name has to go: without it the order makes no sense.
    pub(super) fn fit(width: usize, selection: &Selection, form: Form) -> Self {
        let is_sorted = |column: &Column| column.sort == Some(selection.sort);
        let mut ranked = available(selection, form);
        ranked.sort_by_key(|column| (!is_sorted(column), column.rank));
        let mut name = width;
        let mut taken = Vec::new();
        for column in ranked {
            let least = if column.extra && !form.wide { ROOMY_NAME } else { SHORTEST_NAME };
            if name < column.width + 1 + least && !is_sorted(column) {
                break;
            }
            name = name.saturating_sub(column.width + 1);
            taken.push(column.rank);
        }
        let mut columns = available(selection, form);
        columns.retain(|column| taken.contains(&column.rank));
        let mut layout = Self::of(name, columns);
        layout.lengthen_trend();
        layout
    }

    /// Every column, and a name of any width.
    pub(super) fn everything(name: usize, selection: &Selection) -> Self {
        Self::of(name, available(selection, Form::default()))
    }

    fn of(name: usize, columns: Vec<&'static Column>) -> Self {
        let columns = columns.into_iter().map(|column| Placed { column, width: column.width });
        Self { name, columns: columns.collect() }
    }

    /// Gives a trend the width that a long name can spare, and then limits the name to the length that the
    /// eye can follow.
    fn lengthen_trend(&mut self) {
        for placed in &mut self.columns {
            if matches!(placed.column.content, Content::Trend) {
                let wish = sparkline::WINDOWS.saturating_sub(placed.width);
                let more = wish.min(self.name.saturating_sub(ROOMY_NAME));
                placed.width += more;
                self.name -= more;
            }
        }
        self.name = self.name.min(LONGEST_NAME);
    }
}

impl Placed {
    /// The row's cell in this column; a trend shows as many of the last windows as there is space for.
    pub(super) fn cell(&self, row: &Row) -> String {
        match self.column.content {
            Content::Text(cell) => self.mark(row, cell(row)),
            Content::Trend => sparkline::line(&row.trend[row.trend.len().saturating_sub(self.width)..]),
        }
    }

    /// A number far above the workload's last minutes is marked, too.
    fn mark(&self, row: &Row, mut text: String) -> String {
        if self.column.sort.is_some_and(|key| row.unusual.contains(&key)) && !text.ends_with(ALARM) {
            text.push(ALARM);
        }
        text
    }

    /// The text, filled up to the column's width.
    pub(super) fn pad(&self, text: &str) -> String {
        format::pad_left(text, self.width)
    }
}

fn available(selection: &Selection, form: Form) -> Vec<&'static Column> {
    let is_shown = |column: &&Column| form.live || matches!(column.content, Content::Text(_));
    selection.view.columns().iter().filter(is_shown).collect()
}

#[cfg(test)]
mod tests;
