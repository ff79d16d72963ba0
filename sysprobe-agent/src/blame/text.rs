//! The plain form of one window: for `--once`, and for every window when standard output is no terminal.

use super::{
    bar,
    layout::{self, Layout},
    model::{Blame, Division, Finding},
    target::Target,
};
use crate::{
    show::{Width, format},
    snapshot::Snapshot,
};

/// The text of one window, with its last newline.
pub(super) fn text(
    earlier: &Snapshot,
    later: &Snapshot,
    target: &Target,
    origin: &str,
    width: Width,
) -> String {
    let mut lines = Vec::new();
    if let Some(blame) = Blame::of(earlier, later, target) {
        lines.push(context(target, &blame, origin, width));
        lines.extend(blame.gone.then(|| layout::GONE.to_owned()));
        if let Finding::Waited(waits) = &blame.finding {
            lines.push(layout::summary(waits, &blame));
        }
        lines.extend(layout::remark(&blame.finding, later.domain("sched")));
        if let Finding::Waited(waits) = &blame.finding {
            lines.extend(waits.division.iter().flat_map(|division| table(division, &blame, width)));
        }
    } else {
        lines.push(format!("{} has gone", target.name()));
    }
    lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

fn context(target: &Target, blame: &Blame, origin: &str, width: Width) -> String {
    let window = format::duration(blame.window.as_secs_f64());
    let text = format!("{window} window of {}; {}", layout::subject(target, blame), format::clean(origin));
    match width {
        // Names and the path of a socket may be long.
        Width::Columns(columns) => format::cut_end(&text, columns),
        Width::Full => text,
    }
}

fn table(division: &Division, blame: &Blame, width: Width) -> Vec<String> {
    let layout = Layout::fit(width, division);
    let cells = bar::stacked(&division.causes, layout.whole);
    let stacked = division.causes.iter().zip(cells).map(|(part, cells)| bar::repeat(part.cause, cells));
    let line = |part| layout.numbers(part, blame) + &bar::single(part, layout.bar);
    let mut lines = vec![stacked.collect(), layout.head("CAUSE")];
    lines.extend(division.causes.iter().map(line));
    if !division.culprits.is_empty() {
        lines.push(layout.head("CULPRIT"));
        lines.extend(division.culprits.iter().map(line));
    }
    lines
}

#[cfg(test)]
mod tests;
