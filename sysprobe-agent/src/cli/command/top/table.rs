//! The plain table of one window: for `--once`, and for every window if standard output is not a terminal.

use std::time::Duration;

use super::{
    columns::{Form, Layout, NAME_TITLE},
    selection::{self, Selection},
};
use crate::cli::format;
use crate::cli::presenter::Width;
use crate::cli::rows::Row;
use crate::cli::tui::chrome;
use crate::snapshot::Snapshot;

/// The text of one window, with its last newline.
pub(super) fn text(
    earlier: &Snapshot,
    later: &Snapshot,
    selection: &Selection,
    source: &str,
    width: Width,
) -> String {
    let rows = selection::rows(earlier, later, selection);
    let window = later.window_since(earlier);
    let total = selection::total(later, selection);
    let mut lines = vec![context(window, (rows.len(), total), selection, source, width)];
    lines.extend(selection.view.sampled(later));
    lines.extend(later.domains.iter().filter(|domain| !domain.up).map(chrome::off));
    lines.extend(self::lines(&rows, selection, width));
    lines.extend(selection::no_pods(later, selection).map(|why| format::clean(&why)));
    lines.into_iter().fold(String::new(), |mut text, line| {
        text.push_str(line.trim_end());
        text.push('\n');
        text
    })
}

fn context(
    window: Duration,
    (shown, total): (usize, usize),
    selection: &Selection,
    source: &str,
    width: Width,
) -> String {
    let window = format::duration(window.as_secs_f64());
    let scope = selection.scope.words().map(|words| format!(" of {}", format::clean(&words)));
    let text = format!(
        "{window} window, {shown} of {total} workloads{}; {}",
        scope.unwrap_or_default(),
        format::clean(source)
    );
    match width {
        // The path of a socket may be long.
        Width::Columns(columns) => format::cut_end(&text, columns),
        Width::Full => text,
    }
}

/// The head and a line for each row.
pub(super) fn lines(rows: &[Row], selection: &Selection, width: Width) -> Vec<String> {
    let name_of = match width {
        Width::Columns(_) => format::short_name,
        Width::Full => format::full_name,
    };
    let names: Vec<String> = rows.iter().map(|row| selection.name(row, name_of)).collect();
    let longest = names.iter().map(|name| format::width(name)).max().unwrap_or(0).max(NAME_TITLE.len());
    let mut layout = match width {
        Width::Columns(columns) => Layout::fit(columns, selection, Form::default()),
        Width::Full => Layout::everything(longest, selection),
    };
    layout.name = layout.name.min(longest);
    let titles = layout.columns.iter().map(|placed| placed.column.title.to_owned());
    let head = line(NAME_TITLE, &layout, titles);
    let body = rows
        .iter()
        .zip(&names)
        .map(|(row, name)| line(name, &layout, layout.columns.iter().map(|placed| placed.cell(row))));
    std::iter::once(head).chain(body).collect()
}

fn line(name: &str, layout: &Layout, cells: impl Iterator<Item = String>) -> String {
    let mut line = format::pad_right(&format::cut_middle(name, layout.name), layout.name);
    for (placed, cell) in layout.columns.iter().zip(cells) {
        line.push(' ');
        line.push_str(&placed.pad(&cell));
    }
    line
}

#[cfg(test)]
mod tests;
