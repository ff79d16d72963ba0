//! The table of stages: its columns, and which of them fit.

use ratatui::text::{Line, Span};

use super::model::{Path, Stage, Sum, Times};
use crate::cli::format;
use crate::cli::page::Form;
use crate::cli::presenter::Width;
use crate::cli::tui::bar::Mark;

/// The letter before the name, and a space.
const LETTER: usize = 2;
/// The longest name of a stage is `ready_to_wakeup`.
const NAME: usize = 15;
/// A space and a number.
const NUMBER: usize = 1 + format::NUMBER_WIDTH;
const SHARE: usize = 1 + 5;
const GAP: usize = 2;
/// Below this width, a number says more than a bar.
const SHORTEST_BAR: usize = 8;
/// A longer bar says nothing more.
const LONGEST_BAR: usize = 40;

/// A column of a stage's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Count,
    P50,
    P90,
    P99,
    Max,
}

impl Column {
    /// From left to right.
    const ALL: [Self; 5] = [Self::Count, Self::P50, Self::P90, Self::P99, Self::Max];
    const BY_IMPORTANCE: [Self; 5] = [Self::P99, Self::P50, Self::Max, Self::Count, Self::P90];

    const fn title(self) -> &'static str {
        match self {
            Self::Count => "COUNT",
            Self::P50 => "P50",
            Self::P90 => "P90",
            Self::P99 => "P99",
            Self::Max => "MAX",
        }
    }

    fn show(self, times: &Times) -> String {
        let duration = |seconds| format::or_nothing(seconds, format::duration);
        match self {
            Self::Count => format::whole(times.count),
            Self::P50 => duration(times.p50),
            Self::P90 => duration(times.p90),
            Self::P99 => duration(times.p99),
            Self::Max => duration(times.max),
        }
    }
}

/// The columns and the bar that fit into a width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    columns: Vec<Column>,
    bar: usize,
    color: bool,
}

impl Table {
    /// Numbers take precedence over a bar, except over the shortest one.
    pub(super) fn fit(form: &Form) -> Self {
        let color = form.color;
        let Width::Columns(width) = form.width else {
            return Self { columns: Column::ALL.to_vec(), bar: LONGEST_BAR, color };
        };
        let room = width.saturating_sub(LETTER + NAME + SHARE);
        let fitting = room / NUMBER;
        let important = &Column::BY_IMPORTANCE[..fitting.min(Column::ALL.len())];
        let columns: Vec<_> = Column::ALL.into_iter().filter(|column| important.contains(column)).collect();
        let left = room.saturating_sub(columns.len() * NUMBER + GAP);
        let bar = if left < SHORTEST_BAR { 0 } else { left.min(LONGEST_BAR) };
        Self { columns, bar, color }
    }

    pub(super) fn lines(&self, path: &Path) -> Vec<Line<'static>> {
        let mut lines = vec![self.head(&path.protocol)];
        lines.extend(path.stages.iter().map(|stage| self.stage(stage)));
        lines.push(Line::raw(self.cells(' ', "total", Some(&path.total), 1.0)));
        lines.extend(path.sums.iter().map(|sum| self.sum(*sum)));
        lines
    }

    fn head(&self, protocol: &str) -> Line<'static> {
        let name = format::clean(&protocol.to_uppercase());
        let titles = self.columns.iter().map(|column| column.title());
        format::head(row(&name, titles, "SHARE"))
    }

    fn stage(&self, stage: &Stage) -> Line<'static> {
        let mark = stage.whose.mark();
        let cells = self.cells(mark.letter, &stage.name, Some(&stage.times), stage.share);
        self.with_bar(mark, &cells, stage.share)
    }

    /// Without quantiles, which cannot be added up.
    fn sum(&self, sum: Sum) -> Line<'static> {
        let mark = sum.whose.mark();
        self.with_bar(mark, &self.cells(mark.letter, sum.whose.name(), None, sum.share), sum.share)
    }

    fn with_bar(&self, mark: Mark, cells: &str, share: f64) -> Line<'static> {
        let text = format!("{cells}{}", " ".repeat(GAP.min(self.bar)));
        Line::from(vec![Span::raw(text), mark.bar(share, self.bar, self.color)])
    }

    fn cells(&self, letter: char, name: &str, times: Option<&Times>, share: f64) -> String {
        let name = format!("{letter} {}", format::cut_middle(&format::clean(name), NAME));
        let number = |column: &Column| times.map(|times| column.show(times)).unwrap_or_default();
        row(&name, self.columns.iter().map(number), &format::percent(share))
    }
}

fn row(name: &str, numbers: impl Iterator<Item = impl AsRef<str>>, share: &str) -> String {
    let mut text = format::pad_right(name, LETTER + NAME);
    for number in numbers {
        text.push_str(&format::pad_left(number.as_ref(), NUMBER));
    }
    text + &format::pad_left(share, SHARE)
}
