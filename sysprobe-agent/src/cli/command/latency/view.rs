//! Renders a window: how much was followed; then, scrolling, the stages of each protocol, the causes of the
//! waits for a CPU and, if requested, the slow requests.

use ratatui::{style::Style, text::Line};

use super::{
    Latency,
    model::{Finding, Path, Whose},
    table::Table,
};
use crate::cli::format;
use crate::cli::page::{Body, Form};
use crate::cli::waits::table::{self as causes, Table as Causes};
use crate::cli::waits::{self, Cause};

pub(super) fn body(latency: &Latency, form: &Form) -> Body {
    let slow = latency.slow.iter().flat_map(|slow| slow.lines(form));
    let mut received = received(latency, form).into_iter();
    let mut fixed: Vec<_> = received.by_ref().take(1).collect();
    let mut rows: Vec<_> = received.collect();
    match &latency.received {
        Finding::Off(_) => return Body { fixed, rows },
        Finding::Nothing => {}
        Finding::Received(_) => {
            rows.extend(why_it_waited(latency, form));
            if let Some(summary) = fixed.first_mut() {
                summary.push_span(form.which_lines());
            }
        }
    }
    rows.extend(slow);
    Body { fixed, rows }
}

/// The receive path alone: a summary and the stages.
pub(super) fn received(latency: &Latency, form: &Form) -> Vec<Line<'static>> {
    match &latency.received {
        Finding::Off(reason) => vec![Line::raw(format!("rxpath is off: {}", format::clean(reason)))],
        Finding::Nothing => vec![Line::raw("Nothing that it received was read in this window.")],
        Finding::Received(paths) => {
            let summary = Line::styled(summary(paths, latency), Style::new().bold());
            let table = Table::fit(form);
            std::iter::once(summary).chain(paths.iter().flat_map(|path| table.lines(path))).collect()
        }
    }
}

fn summary(paths: &[Path], latency: &Latency) -> String {
    let rate = |path: &Path| {
        let rate = format::or_nothing(latency.subject.per_second(path.total.count as f64), format::rate);
        format!("{rate} {}", format::clean(&path.protocol))
    };
    let rates: Vec<_> = paths.iter().map(rate).collect();
    let sampled = latency.sampled.as_ref().map(|sampled| format!(" ({sampled})")).unwrap_or_default();
    format!("Followed to its reader: {}{sampled}.", rates.join(", "))
}

/// The causes that occurred. `blame` shows the culprits.
fn why_it_waited(latency: &Latency, form: &Form) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let waits::Finding::Waited(waits) = &latency.waits {
        let rate = causes::milliseconds(waits.total, &latency.subject);
        lines.push(Line::raw(format!("All its waits for a CPU, not only for these requests: {rate} ms/s")));
        if let Some(division) = &waits.division {
            let there = division.causes.iter().filter(|part| part.seconds > 0.0);
            let table = Causes::fit(form, there.clone());
            lines.push(table.head("CAUSE"));
            lines.extend(there.map(|part| table.row(part, &latency.subject)));
        }
    }
    lines.extend(causes::remark(&latency.waits).map(Line::raw));
    lines
}

/// The help texts of stages, owners, columns and causes.
pub(super) fn terms() -> Vec<(&'static str, &'static str)> {
    let stages = [
        ("device_to_ip", "taken off the first device's queue"),
        ("ip_to_ready", "filters, routes, the connection"),
        ("ready_to_wakeup", "readable; its reader still slept"),
        ("wakeup_to_run", "it was runnable, without a CPU"),
        ("run_to_read", "it ran, or slept, before it read"),
        ("device_to_ready", "merged, where the kernel shows less"),
        ("ready_to_read", "  the reader's stages, merged"),
        ("udp", "UDP stages have udp instead of tcp"),
    ];
    let columns = [
        ("COUNT", "requests: data at an empty socket"),
        ("MAX", "upper bound of the highest bucket"),
        ("SHARE", "share of the total time"),
        ("MS/S", "milliseconds waited, per second"),
    ];
    let whose = Whose::ALL.map(|whose| (whose.name(), meaning(whose)));
    let causes = Cause::EACH.map(|cause| (cause.name(), cause.meaning()));
    stages.into_iter().chain(whose).chain(columns).chain(causes).collect()
}

const fn meaning(whose: Whose) -> &'static str {
    match whose {
        Whose::Network => "N: until the reader is woken",
        Whose::Scheduler => "C: wakeup_to_run",
        Whose::Application => "A: run_to_read",
        Whose::Reader => "R: scheduler and application, merged",
    }
}

#[cfg(test)]
mod tests;
