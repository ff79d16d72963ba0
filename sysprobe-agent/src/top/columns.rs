//! The one table of columns: title, width, content, meaning. The plain table, the live table and the help take
//! everything from it. Which columns a width has room for is decided here, too.

use super::{
    format::{self, NUMBER_WIDTH},
    rows::{Row, SortKey},
};

/// A column of numbers, right-aligned. The name is not one of them: it gets the width that they leave.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Room for the content, and for the title with a sort marker.
    pub(super) width: usize,
    pub(super) sort: Option<SortKey>,
    /// Lower ranks are the last to go when space gets scarce.
    rank: u8,
    /// Shown only when asked for or when there is plenty of space.
    pub(super) extra: bool,
    pub(super) help: &'static str,
    pub(super) cell: fn(&Row) -> String,
}

pub(super) const NAME_TITLE: &str = "NAME";
/// Ends a number that calls for attention, so that colour is never the only sign.
pub(super) const ALARM: char = '!';
/// Where kubernetes-mixin's alert `CPUThrottlingHigh` fires.
const ALARMING_THROTTLED_RATIO: f64 = 0.25;
/// A name in fewer columns is no longer recognised.
const SHORTEST_NAME: usize = 16;
/// Extra columns are welcome only beside a name that is mostly whole.
const ROOMY_NAME: usize = 40;
/// The eye loses the line between a name and numbers that are further away.
const LONGEST_NAME: usize = 60;

/// In the order in which they are shown.
pub(super) static COLUMNS: [Column; 12] = [
    Column {
        title: "CPU",
        width: 5,
        sort: Some(SortKey::Cpu),
        rank: 0,
        extra: false,
        help: "CPUs in use, on average",
        cell: |row| format::or_nothing(row.cpu_cores, format::cores),
    },
    Column {
        title: "QUOTA",
        width: 6,
        sort: None,
        rank: 7,
        extra: true,
        help: "CPUs allowed (cpu.max)",
        cell: |row| format::or_nothing(row.quota_cores, format::cores),
    },
    Column {
        title: "THROT",
        width: 6,
        sort: Some(SortKey::Throttled),
        rank: 2,
        extra: false,
        help: "quota periods cut short; ! from 25%",
        cell: throttled_cell,
    },
    Column {
        title: "THRTIME",
        width: NUMBER_WIDTH + 2,
        sort: None,
        rank: 8,
        extra: true,
        help: "time throttled, per second",
        cell: |row| format::or_nothing(row.throttled_rate, |rate| format!("{}/s", format::duration(rate))),
    },
    Column {
        title: "WAIT50",
        width: 7,
        sort: Some(SortKey::P50),
        rank: 4,
        extra: false,
        help: "median wait for a CPU",
        cell: |row| format::or_nothing(row.wait_p50, format::duration),
    },
    Column {
        title: "WAIT99",
        width: 7,
        sort: Some(SortKey::P99),
        rank: 1,
        extra: false,
        help: "99 of 100 waits were shorter",
        cell: |row| format::or_nothing(row.wait_p99, format::duration),
    },
    Column {
        title: "WAITMAX",
        width: 8,
        sort: Some(SortKey::Max),
        rank: 3,
        extra: false,
        help: "no wait was longer",
        cell: |row| format::or_nothing(row.wait_max, format::duration),
    },
    Column {
        title: "WAITING",
        width: 7,
        sort: None,
        rank: 9,
        extra: true,
        help: "tasks waiting, on average",
        cell: |row| format::or_nothing(row.waiting, format::cores),
    },
    Column {
        title: "SWITCH",
        width: 7,
        sort: Some(SortKey::Switches),
        rank: 5,
        extra: false,
        help: "context switches of both sorts",
        cell: |row| format::or_nothing(row.switch_rate(), format::rate),
    },
    Column {
        title: "VOL",
        width: NUMBER_WIDTH,
        sort: None,
        rank: 10,
        extra: true,
        help: "switches because it had to wait",
        cell: |row| format::or_nothing(row.voluntary_rate, format::rate),
    },
    Column {
        title: "INVOL",
        width: NUMBER_WIDTH,
        sort: None,
        rank: 6,
        extra: false,
        help: "switches against its will",
        cell: |row| format::or_nothing(row.involuntary_rate, format::rate),
    },
    Column {
        title: "KIND",
        width: 9,
        sort: None,
        rank: 11,
        extra: true,
        help: "what the name is the name of",
        cell: |row| row.kind.name().to_owned(),
    },
];

fn throttled_cell(row: &Row) -> String {
    let alarming = row.throttled_ratio.is_some_and(|ratio| ratio >= ALARMING_THROTTLED_RATIO);
    let text = format::or_nothing(row.throttled_ratio, format::percent);
    if alarming { format!("{text}{ALARM}") } else { text }
}

/// What is shown in a given width.
#[derive(Debug)]
pub(super) struct Layout {
    /// Columns for the name.
    pub(super) name: usize,
    pub(super) columns: Vec<&'static Column>,
}

impl Layout {
    /// Takes columns by rank as long as the name keeps enough; `wide` asks for the extra ones.
    pub(super) fn fit(width: usize, wide: bool) -> Self {
        let mut ranked: Vec<&'static Column> = COLUMNS.iter().collect();
        ranked.sort_by_key(|column| column.rank);
        let mut name = width;
        let mut taken = Vec::new();
        for column in ranked {
            let least = if column.extra && !wide { ROOMY_NAME } else { SHORTEST_NAME };
            if name < column.width + 1 + least {
                break;
            }
            name -= column.width + 1;
            taken.push(column.rank);
        }
        let columns = COLUMNS.iter().filter(|column| taken.contains(&column.rank)).collect();
        Self { name: name.min(LONGEST_NAME), columns }
    }

    /// Every column, and a name of any width.
    pub(super) fn everything(name: usize) -> Self {
        Self { name, columns: COLUMNS.iter().collect() }
    }
}

#[cfg(test)]
mod tests;
