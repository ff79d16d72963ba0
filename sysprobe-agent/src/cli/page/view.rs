//! Draws the live view: a line of context, notices, the command's lines, of which the lower part scrolls, a
//! line of key hints, and the help overlay on top.

use std::time::Duration;

use ratatui::{
    Frame,
    layout::{Constraint, Layout as Split},
    text::Line,
};

use super::{Body, Form, GONE, Page, app::App};
use crate::cli::format;
use crate::cli::presenter::Width;
use crate::cli::tui::chrome;
use crate::cli::tui::help::Help;

/// The line of context and the footer.
const FRAME_LINES: usize = 2;

/// Draws everything.
pub(super) fn draw<P: Page>(frame: &mut Frame, app: &App<P>) {
    let area = frame.area();
    let width = usize::from(area.width);
    let all_notices = notices_of(app);
    let [context, notices, body, footer] = Split::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::try_from(all_notices.len()).unwrap_or(u16::MAX)),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(chrome::context_line(P::COMMAND, app.frozen, context_parts(app), width), context);
    for (notice, row) in all_notices.iter().zip(notices.rows()) {
        frame.render_widget(
            Line::styled(format::cut_end(notice, width), chrome::warning(app.settings.color)),
            row,
        );
    }
    for (line, row) in lines(app).into_iter().zip(body.rows()) {
        frame.render_widget(line, row);
    }
    frame.render_widget(chrome::footer(P::bindings(), width), footer);
    if let Some(scrolled) = app.help {
        help::<P>().draw(frame, scrolled);
    }
}

/// Every key, and every term of the command.
pub(super) fn help<P: Page>() -> Help {
    Help::new(P::bindings(), P::terms().into_iter())
}

/// Number of scrolling lines that fit on the screen.
pub(super) fn page<P: Page>(app: &App<P>) -> usize {
    let above = FRAME_LINES + notices_of(app).len() + body(app, String::new()).fixed.len();
    usize::from(app.height()).saturating_sub(above)
}

/// Number of scrolling lines.
pub(super) fn rows<P: Page>(app: &App<P>) -> usize {
    body(app, String::new()).rows.len()
}

/// One line each: the source's error, and the deletion of the subject.
fn notices_of<P: Page>(app: &App<P>) -> Vec<String> {
    let error = app.error.as_deref().map(chrome::failed);
    let gone = app.gone.then(|| format!("{}: {GONE}", P::name(None, &app.of)));
    error.into_iter().chain(gone).collect()
}

/// In order of importance: parts that do not fit are left out.
fn context_parts<P: Page>(app: &App<P>) -> Vec<String> {
    let seconds = |duration: Duration| format::duration(duration.as_secs_f64());
    let mut parts = vec![P::name(app.shown.as_ref(), &app.of)];
    parts.extend(app.shown.as_ref().map(|page| format!("window {}", seconds(page.window()))));
    parts.push(format!("every {}", seconds(app.settings.interval)));
    parts.push(format::clean(&app.settings.source));
    parts
}

fn lines<P: Page>(app: &App<P>) -> Vec<Line<'static>> {
    if app.shown.is_none() {
        let text = if app.gone {
            "It had gone before the first window was over."
        } else {
            "The first window is not over yet."
        };
        return vec![Line::raw(text)];
    }
    let Body { fixed, rows } = body(app, position(app));
    fixed.into_iter().chain(rows.into_iter().skip(app.offset)).collect()
}

/// The visible lines by number, if not all of them fit.
fn position<P: Page>(app: &App<P>) -> String {
    let (page, count) = (page(app), rows(app));
    if count <= page {
        return String::new();
    }
    format!("{}-{} of {count}", app.offset + 1, (app.offset + page).min(count))
}

fn body<P: Page>(app: &App<P>, position: String) -> Body {
    let width = Width::Columns(usize::from(app.width()));
    let form = Form { width, color: app.settings.color, position };
    app.shown.as_ref().map(|page| page.body(&app.of, &form)).unwrap_or_default()
}
