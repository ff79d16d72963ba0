//! Renders a window: all programs in one line; then, scrolling, a table of programs, one of maps, and one of
//! losses.

use ratatui::{style::Style, text::Line};

use super::model::{LostRow, Order, ProgramRow, SortKey, Window};
use crate::cli::format;
use crate::cli::page::{Body, Form};
use crate::cli::presenter::Width;
use crate::snapshot::{MapSample, Measuring};

/// The kernel truncates program names to this length.
const PROGRAM: usize = 15;
const DOMAIN: usize = 7;
const SHORTEST_HOOK: usize = 16;
/// A space and a number.
const NUMBER: usize = 1 + 7;
const NUMBERS: usize = 4 * NUMBER;

/// The words on the screen and what they mean.
pub(super) const TERMS: [(&str, &str); 9] = [
    ("RUNS", "runs per second"),
    ("TIME", "mean time of a run"),
    ("CPU", "share of one CPU, in this window"),
    ("MISSED", "runs that the kernel skipped"),
    ("ENTRIES", "in use, if the map can fill up"),
    ("FULL", "share of the capacity in use"),
    ("MEMORY", "kernel memory when full"),
    ("LOST", "in this window"),
    ("EVER", "since the agent started"),
];

pub(super) fn body(window: &Window, order: Order, form: &Form) -> Body {
    let mut fixed = vec![Line::styled(summary(window), Style::new().bold())];
    fixed.extend(not_measured(window).map(Line::raw));
    let table = Table::fit(window, form);
    fixed.push(table.head(order, form));
    let mut rows: Vec<_> =
        window.sorted(order).into_iter().map(|row| Line::raw(table.program(window, row))).collect();
    rows.push(table.map_head());
    rows.extend(window.maps.iter().map(|map| Line::raw(table.map(map))));
    rows.extend(table.lost(window));
    Body { fixed, rows }
}

fn summary(window: &Window) -> String {
    let collected = format::duration(window.collected_in.as_secs_f64());
    let collected = format!("The last collection took {collected}.");
    match (window.cpu_share(window.run_ns()), window.per_second(window.runs())) {
        (Some(share), Some(rate)) => format!(
            "All programs: {} of a CPU, {} runs. {collected}",
            format::fine_percent(share),
            format::rate(rate)
        ),
        _ => collected,
    }
}

/// Why there are no numbers.
fn not_measured(window: &Window) -> Option<String> {
    let why = match &window.measuring {
        _ if window.is_measured() => return None,
        Measuring::Refused(reason) => format!("refuses to measure its programs: {}", format::clean(reason)),
        Measuring::On | Measuring::Off => "was not asked to measure its programs".to_owned(),
    };
    Some(format!("The kernel {why}."))
}

/// Names get the width that they need, as far as there is room.
struct Table {
    hook: usize,
}

impl Table {
    fn fit(window: &Window, form: &Form) -> Self {
        let longest = window.programs.iter().map(|row| format::width(&row.total.hook)).max().unwrap_or(0);
        let longest = longest.max(SHORTEST_HOOK);
        let Width::Columns(columns) = form.width else { return Self { hook: longest } };
        let room = columns.saturating_sub(PROGRAM + 1 + DOMAIN + 1 + NUMBERS);
        Self { hook: longest.min(room.max(SHORTEST_HOOK)) }
    }

    fn head(&self, order: Order, form: &Form) -> Line<'static> {
        let marker = if order.reverse { '▲' } else { '▼' };
        let title =
            |title: &str, key| if order.sort == key { format!("{title}{marker}") } else { title.to_owned() };
        let program = match form.position.as_str() {
            "" => title("PROGRAM", SortKey::Name),
            position => position.to_owned(),
        };
        let numbers = [
            title("RUNS", SortKey::Runs),
            title("TIME", SortKey::Time),
            title("CPU", SortKey::Cpu),
            title("MISSED", SortKey::Missed),
        ];
        format::head(self.line(&program, "DOMAIN", "HOOK", &numbers))
    }

    fn program(&self, window: &Window, row: &ProgramRow) -> String {
        let numbers = [
            format::or_nothing(window.per_second(row.runs), format::rate),
            format::or_nothing(row.mean_ns(), |ns| format::duration(ns / 1e9)),
            format::or_nothing(window.cpu_share(row.run_ns), format::fine_percent),
            format::whole(row.missed),
        ];
        self.line(&row.total.program, &row.total.domain, &row.total.hook, &numbers)
    }

    fn line(&self, program: &str, domain: &str, hook: &str, numbers: &[String]) -> String {
        let cell =
            |text: &str, width| format::pad_right(&format::cut_middle(&format::clean(text), width), width);
        let names = [cell(program, PROGRAM), cell(domain, DOMAIN), cell(hook, self.hook)].join(" ");
        names + &cells(numbers)
    }

    /// Here the name spans the first columns of the programs' table.
    fn named(&self, name: &str, numbers: &[String]) -> String {
        let width = PROGRAM + 1 + DOMAIN + 1 + self.hook;
        let name = format::cut_middle(&format::clean(name), width + (4 - numbers.len()) * NUMBER);
        let numbers = cells(numbers);
        let width = width + NUMBERS - format::width(&numbers);
        format::pad_right(&name, width) + &numbers
    }

    fn map_head(&self) -> Line<'static> {
        let titles = ["ENTRIES", "ROOM", "FULL", "MEMORY"].map(str::to_owned);
        format::head(self.named("MAP", &titles))
    }

    fn map(&self, map: &MapSample) -> String {
        let entries = map.entries.map(|entries| entries as f64);
        let full = entries.filter(|_| map.capacity > 0).map(|entries| entries / map.capacity as f64);
        let numbers = [
            map.entries.map_or_else(|| format::NOTHING.to_owned(), format::whole),
            format::whole(map.capacity),
            format::or_nothing(full, format::percent),
            format!("{}B", format::count(map.bytes as f64)),
        ];
        self.named(&map.map, &numbers)
    }

    fn lost(&self, window: &Window) -> Vec<Line<'static>> {
        if window.lost.is_empty() {
            return vec![Line::raw("No updates were lost.")];
        }
        let row = |row: &LostRow| {
            let name = format!("{} {}", row.domain, row.reason);
            Line::raw(self.named(&name, &[format::whole(row.count), format::whole(row.total)]))
        };
        let head = format::head(self.named("WHAT WAS LOST", &["LOST", "EVER"].map(str::to_owned)));
        [head].into_iter().chain(window.lost.iter().map(row)).collect()
    }
}

fn cells(numbers: &[String]) -> String {
    numbers.iter().map(|number| format::pad_left(number, NUMBER)).collect()
}

#[cfg(test)]
mod tests;
