//! Draws the live table: two or more lines of context, the table, a line of key hints, and the help overlay
//! on top.

use ratatui::{
    Frame,
    layout::{Constraint, Layout as Split, Position, Rect},
    style::{Style, Stylize as _},
    text::{Line, Span},
};

use super::{
    app::{App, Focus},
    columns::{ALARM, Form, Layout, NAME_TITLE, Placed},
    keys::BINDINGS,
    views::View,
};
use crate::cli::format;
use crate::cli::rows::{Row, SortKey};
use crate::cli::tui::chrome::{self, GAP};
use crate::cli::tui::help::Help;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame, app: &App) {
    let area = frame.area();
    let [context, notices, head, body, footer] = Split::vertical([
        Constraint::Length(1),
        Constraint::Length(notice_lines(app)),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    let form = Form { wide: app.settings.wide, live: true };
    let layout = Layout::fit(usize::from(area.width), &app.selection, form);
    frame.render_widget(context_line(app, usize::from(area.width)), context);
    for (notice, row) in notices_of(app).iter().zip(notices.rows()) {
        let text = format::cut_end(notice, usize::from(area.width));
        frame.render_widget(Line::styled(text, chrome::warning(app.settings.color)), row);
    }
    frame.render_widget(head_line(app, &layout), head);
    draw_rows(frame, app, &layout, body);
    draw_footer(frame, app, footer);
    if let Focus::Help(scrolled) = app.focus {
        help(app.selection.view).draw(frame, scrolled);
    }
}

/// Every key and every column of the table.
pub(super) fn help(view: View) -> Help {
    Help::new(&BINDINGS, view.columns().iter().map(|column| (column.title, column.help)))
}

/// Number of rows that fit on a screen of this height.
pub(super) fn page(app: &App, height: u16) -> usize {
    // Context, head and footer take a line each.
    usize::from(height.saturating_sub(3 + notice_lines(app)))
}

fn notice_lines(app: &App) -> u16 {
    u16::from(app.error.is_some()) + u16::from(app.domains_off().next().is_some())
}

/// One line each: the source's error, and the domains that are off.
fn notices_of(app: &App) -> Vec<String> {
    let error = app.error.as_deref().map(chrome::failed);
    let off: Vec<String> = app.domains_off().map(chrome::off).collect();
    let off = (!off.is_empty()).then(|| off.join("; "));
    error.into_iter().chain(off).collect()
}

fn context_line(app: &App, width: usize) -> Line<'static> {
    chrome::context_line(app.selection.view.command(), app.frozen, context_parts(app), width)
}

/// In order of importance: parts that do not fit are left out.
fn context_parts(app: &App) -> Vec<String> {
    let (settings, selection) = (&app.settings, &app.selection);
    let seconds = |duration: std::time::Duration| format::duration(duration.as_secs_f64());
    let mut parts = vec![format!("{} of {}", app.rows.len(), app.total())];
    parts.extend(selection.scope.words().map(|words| format::clean(&words)));
    if !selection.filter.is_empty() {
        parts.push(format!("filter `{}`", format::clean(&selection.filter)));
    }
    parts.extend(app.sampled());
    parts.extend(app.window().map(|window| format!("window {}", seconds(window))));
    parts.push(format!("every {}", seconds(settings.interval)));
    parts.push(if selection.all { "idle shown" } else { "idle hidden" }.to_owned());
    parts.push(format::clean(&settings.source));
    parts
}

fn head_line(app: &App, layout: &Layout) -> Line<'static> {
    let sorts = |sort: Option<SortKey>| sort == Some(app.selection.sort);
    let marker = if app.selection.reverse { '▲' } else { '▼' };
    let title = |title: &str, sort| if sorts(sort) { format!("{title}{marker}") } else { title.to_owned() };
    let mut text = format::pad_right(&title(NAME_TITLE, Some(SortKey::Name)), layout.name);
    for placed in &layout.columns {
        text.push(' ');
        text.push_str(&placed.pad(&title(placed.column.title, placed.column.sort)));
    }
    Line::styled(text, Style::new().bold().underlined())
}

fn draw_rows(frame: &mut Frame, app: &App, layout: &Layout, area: Rect) {
    if app.rows.is_empty() {
        frame.render_widget(Line::raw(nothing(app)), area);
        return;
    }
    for ((index, row), place) in app.rows.iter().enumerate().skip(app.offset).zip(area.rows()) {
        let line = row_line(app, row, layout);
        let selected = app.selected() == Some(index);
        frame.render_widget(if selected { line.reversed() } else { line }, place);
    }
}

/// The reason why the table is empty.
fn nothing(app: &App) -> String {
    let words = match app.window() {
        None => "The first window is not over yet.",
        Some(_) if !app.selection.filter.is_empty() => "No workload matches the filter: press / then Esc.",
        Some(_) if app.total() > 0 => app.selection.view.nothing_happened(),
        Some(_) => {
            return app
                .no_pods()
                .map_or_else(|| "There are no workloads.".to_owned(), |why| format::clean(&why));
        }
    };
    words.to_owned()
}

fn row_line(app: &App, row: &Row, layout: &Layout) -> Line<'static> {
    let name_of = if app.settings.wide { format::full_name } else { format::short_name };
    let name = app.selection.name(row, name_of);
    let mut spans = vec![Span::raw(format::pad_right(&format::cut_middle(&name, layout.name), layout.name))];
    for placed in &layout.columns {
        spans.extend(cell_spans(app, row, placed));
    }
    Line::from(spans)
}

/// The padding is a span of its own, so that an alarm colours the number only.
fn cell_spans(app: &App, row: &Row, placed: &Placed) -> [Span<'static>; 2] {
    let text = placed.cell(row);
    let padding = " ".repeat((placed.width + 1).saturating_sub(format::width(&text)));
    let style = if text.ends_with(ALARM) {
        chrome::warning(app.settings.color).bold()
    } else if placed.column.sort == Some(app.selection.sort) {
        Style::new().bold()
    } else {
        Style::new()
    };
    [Span::raw(padding), Span::styled(text, style)]
}

fn draw_footer(frame: &mut Frame, app: &App, area: Rect) {
    if app.focus == Focus::Filter {
        draw_filter(frame, app, area);
        return;
    }
    frame.render_widget(chrome::footer(&BINDINGS, usize::from(area.width)), area);
}

/// Keeps the end of the filter in sight, with the terminal's cursor behind it.
fn draw_filter(frame: &mut Frame, app: &App, area: Rect) {
    const PROMPT: &str = "filter: ";
    const HINT: &str = "Enter keeps, Esc clears";
    let filter = format::clean(&app.selection.filter);
    let room = usize::from(area.width).saturating_sub(PROMPT.len() + 1);
    let mut visible = filter.as_str();
    while format::width(visible) > room {
        visible = visible.split_at(visible.chars().next().map_or(0, char::len_utf8)).1;
    }
    let mut text = format!("{PROMPT}{visible}");
    let end = format::width(&text);
    if end + 2 * GAP.len() + HINT.len() <= usize::from(area.width) {
        text.extend([GAP, GAP, HINT]);
    }
    frame.render_widget(Line::raw(text), area);
    frame.set_cursor_position(Position::new(area.x + u16::try_from(end).unwrap_or(area.width), area.y));
}

#[cfg(test)]
mod tests;
