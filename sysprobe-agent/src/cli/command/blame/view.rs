//! Renders a window: the total wait with a bar of all causes, one row per cause, and the list of culprits,
//! which scrolls.

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use super::Blame;
use crate::cli::page::{Body, Form};
use crate::cli::tui::bar;
use crate::cli::waits::table::{self, Table};
use crate::cli::waits::{Cause, Division, Finding, Part};

pub(super) fn body(blame: &Blame, form: &Form) -> Body {
    let mut body = Body::default();
    if let Finding::Waited(waits) = &blame.waits {
        let summary = table::summary(waits, &blame.subject);
        body.fixed.push(Line::styled(summary, Style::new().bold()));
        if let Some(division) = &waits.division {
            divided(blame, division, form, &mut body);
        }
    }
    body.fixed.extend(table::remark(&blame.waits).map(Line::raw));
    body
}

fn divided(blame: &Blame, division: &Division, form: &Form, body: &mut Body) {
    let table = Table::fit(form, division.parts());
    let cells = bar::stacked(division.causes.iter().map(|part| part.share), table.whole);
    let stacked = division.causes.iter().zip(cells);
    let stacked: Vec<Span> =
        stacked.map(|(part, cells)| part.cause.mark().cells(cells, form.color)).collect();
    let row = |part: &Part| table.row(part, &blame.subject);
    body.fixed.extend([Line::from(stacked), table.head("CAUSE")]);
    body.fixed.extend(division.causes.iter().map(row));
    if !division.culprits.is_empty() {
        let title = format!("CULPRIT {}", form.position);
        body.fixed.push(table.head(title.trim_end()));
        body.rows.extend(division.culprits.iter().map(row));
    }
}

/// The help texts of all causes and columns.
pub(super) fn terms() -> Vec<(&'static str, &'static str)> {
    let causes = Cause::EACH.map(|cause| (cause.name(), cause.meaning()));
    let columns = [
        ("MS/S", "milliseconds waited, per second"),
        ("SHARE", "of all waits for a CPU"),
        ("other", "all further culprits, summed"),
    ];
    causes.into_iter().chain(columns).collect()
}

#[cfg(test)]
mod tests;
