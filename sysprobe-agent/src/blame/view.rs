//! The live view on the screen: a line of context, notices, how long it waited and the bar of all causes; the causes; the
//! culprits, which scroll; a line of key hints; the help overlay on top.

use ratatui::{
    Frame,
    layout::{Constraint, Layout as Split, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{
    app::App,
    bar,
    keys::BINDINGS,
    layout::{self, Layout},
    model::{Blame, Cause, Division, Finding, Part},
};
use crate::show::{Width, chrome, format, help::Help};

/// What else takes a line each: context, summary, bar, two heads, footer.
const FIXED_LINES: usize = 6;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame, app: &App) {
    let area = frame.area();
    let width = usize::from(area.width);
    let [context, notices, body, footer] = Split::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::try_from(notices_of(app).len()).unwrap_or(u16::MAX)),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(
        chrome::context_line("sysprobe blame", app.frozen, context_parts(app), width),
        context,
    );
    for (notice, row) in notices_of(app).iter().zip(notices.rows()) {
        frame
            .render_widget(Line::styled(format::cut_end(notice, width), chrome::warning(&app.settings)), row);
    }
    for (line, row) in body_lines(app, body).into_iter().zip(body.rows()) {
        frame.render_widget(line, row);
    }
    frame.render_widget(chrome::footer(&BINDINGS, width), footer);
    if let Some(scrolled) = app.help {
        help().draw(frame, scrolled);
    }
}

/// Every key, every cause, and what the columns are.
pub(super) fn help() -> Help {
    let causes = Cause::EACH.map(|cause| (cause.name(), meaning(cause)));
    let columns = [
        ("MS/S", "milliseconds waited, per second"),
        ("SHARE", "of all waits for a CPU"),
        ("other", "culprits that are not told apart"),
    ];
    Help::new(&BINDINGS, causes.into_iter().chain(columns))
}

const fn meaning(cause: Cause) -> &'static str {
    match cause {
        Cause::Throttled => "T: its CPU quota was used up",
        Cause::SamePod => "P: its own pod or unit ran",
        Cause::OtherPod => "O: other pods ran",
        Cause::System => "S: units and cgroups ran",
        Cause::Kernel => "K: threads of the kernel ran",
        Cause::Interrupt => "I: interrupts and softirqs",
        Cause::Idle => "-: the CPU was about to take it",
        Cause::Unknown => "?: nobody saw",
        Cause::Others => "+: other pods and the system",
    }
}

/// How many culprits fit on the screen.
pub(super) fn page(app: &App) -> usize {
    usize::from(app.height()).saturating_sub(FIXED_LINES + Cause::EACH.len() + notices_of(app).len())
}

/// One line each: what the source says, and that there is nothing new to come.
fn notices_of(app: &App) -> Vec<String> {
    let error = app.error.as_deref().map(chrome::failed);
    let gone = app.gone.then(|| format!("{}: {}", app.target.name(), layout::GONE));
    error.into_iter().chain(gone).collect()
}

/// By importance: those that do not fit are left out.
fn context_parts(app: &App) -> Vec<String> {
    let seconds = |duration: std::time::Duration| format::duration(duration.as_secs_f64());
    let mut parts = Vec::new();
    match &app.shown {
        Some(blame) => {
            parts.push(layout::subject(&app.target, blame));
            parts.push(format!("window {}", seconds(blame.window)));
        }
        None => parts.push(app.target.name()),
    }
    parts.push(format!("every {}", seconds(app.settings.interval)));
    parts.push(format::clean(&app.settings.source));
    parts
}

fn body_lines(app: &App, area: Rect) -> Vec<Line<'static>> {
    let Some(blame) = &app.shown else {
        let text = if app.gone {
            "It had gone before the first window was over."
        } else {
            "The first window is not over yet."
        };
        return vec![Line::raw(text)];
    };
    let mut lines = Vec::new();
    if let Finding::Waited(waits) = &blame.finding {
        lines.push(Line::styled(layout::summary(waits, blame), Style::new().bold()));
        lines.extend(waits.division.iter().flat_map(|division| table(app, blame, division, area)));
    }
    lines.extend(layout::remark(&blame.finding, app.sched()).map(Line::raw));
    lines
}

fn table(app: &App, blame: &Blame, division: &Division, area: Rect) -> Vec<Line<'static>> {
    let layout = Layout::fit(Width::Columns(usize::from(area.width)), division);
    let cells = bar::stacked(&division.causes, layout.whole);
    let stacked = division.causes.iter().zip(cells);
    let stacked = stacked.map(|(part, cells)| span(app, part.cause, bar::repeat(part.cause, cells)));
    let line = |part: &Part| {
        let text = Span::raw(layout.numbers(part, blame));
        Line::from(vec![text, span(app, part.cause, bar::single(part, layout.bar))])
    };
    let head = |title: &str| Line::styled(layout.head(title), Style::new().bold().underlined());
    let mut lines = vec![stacked.collect(), head("CAUSE")];
    lines.extend(division.causes.iter().map(line));
    if !division.culprits.is_empty() {
        lines.push(head(&culprits_title(app, division.culprits.len())));
        lines.extend(division.culprits.iter().skip(app.offset).map(line));
    }
    lines
}

/// Says where one is, if not all fit.
fn culprits_title(app: &App, count: usize) -> String {
    let page = page(app);
    if count <= page {
        return "CULPRIT".to_owned();
    }
    format!("CULPRIT {}-{} of {count}", app.offset + 1, (app.offset + page).min(count))
}

fn span(app: &App, cause: Cause, text: String) -> Span<'static> {
    let style = if app.settings.color { bar::style(cause) } else { Style::new() };
    Span::styled(text, style)
}

#[cfg(test)]
mod tests;
