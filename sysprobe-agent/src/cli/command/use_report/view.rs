//! Renders a window: a line for each measure, with the resource's name on its first line.

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use super::model::{Behind, Measure, Unit, UseReport};
use crate::cli::page::{Body, Form};
use crate::cli::presenter::Width;
use crate::cli::tui::chrome;
use crate::cli::{format, target};

const SHORTEST_RESOURCE: usize = 12;
const LONGEST_RESOURCE: usize = 20;
const WHAT: usize = 25;
const VALUE: usize = 9;
const ALARM: char = '!';

/// The words on the screen and what they mean.
pub(super) const TERMS: [(&str, &str); 6] = [
    ("U", "utilization: how much is in use"),
    ("S", "saturation: what waits for it"),
    ("E", "errors: what fails"),
    ("BEHIND IT", "the workload with the largest share"),
    ("link", "a network device; % of its speed"),
    ("!", "too much: needs attention"),
];

pub(super) fn body(report: &UseReport, form: &Form) -> Body {
    let mut fixed = Vec::new();
    if !report.is_told {
        fixed.push(Line::raw("This agent reports no data about the node: it is older than this command."));
    }
    let width = width(report, form);
    let title = |text: &str, width| format::pad_right(text, width);
    let resource = if form.position.is_empty() { "RESOURCE" } else { &form.position };
    let columns = [title(resource, width), title("  WHAT", WHAT + 2), format::pad_left("VALUE", VALUE - 1)];
    fixed.push(format::head(columns.join(" ") + "  BEHIND IT"));
    let mut last = "";
    let rows = report.lines.iter().map(|measure| {
        let is_new = measure.resource != last;
        last = &measure.resource;
        line(measure, is_new, width, form)
    });
    Body { rows: rows.collect(), fixed }
}

/// The width of the resources' names. Devices of one kind differ at their ends.
fn width(report: &UseReport, form: &Form) -> usize {
    let names = report.lines.iter().map(|measure| format::width(&format::clean(&measure.resource)));
    let longest = names.max().unwrap_or(0).max(SHORTEST_RESOURCE);
    if form.width == Width::Full { longest } else { longest.min(LONGEST_RESOURCE) }
}

fn line(measure: &Measure, is_new: bool, width: usize, form: &Form) -> Line<'static> {
    let resource = if is_new { format::clean(&measure.resource) } else { String::new() };
    let start = format!(
        "{} {} {} ",
        format::pad_right(&format::cut_middle(&resource, width), width),
        measure.sort.letter(),
        format::pad_right(measure.what, WHAT),
    );
    let mut value = format::or_nothing(measure.value, |value| amount(value, measure.unit));
    value.push(if measure.is_alarming() { ALARM } else { ' ' });
    let behind = measure.behind.as_ref().map(behind).unwrap_or_default();
    let behind = match form.width {
        Width::Columns(columns) => {
            format::cut_middle(&behind, columns.saturating_sub(width + WHAT + VALUE + 6))
        }
        Width::Full => behind,
    };
    let style = if measure.is_alarming() { chrome::warning(form.color).bold() } else { Style::new() };
    Line::from(vec![
        Span::raw(start),
        Span::styled(format::pad_left(&value, VALUE), style),
        Span::raw(format!("  {behind}")),
    ])
}

/// The workload and its part.
fn behind(behind: &Behind) -> String {
    format!("{} {}", amount(behind.amount, behind.unit), target::name(&behind.who))
}

fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Share => format::fine_percent(value),
        Unit::Number => format::cores(value),
        Unit::Time => format!("{}/s", format::duration(value)),
        Unit::PerSecond => format::rate(value),
        Unit::BytesPerSecond => format!("{}B/s", format::count(value)),
        Unit::Bytes => format!("{}B", format::count(value)),
    }
}

#[cfg(test)]
mod tests;
