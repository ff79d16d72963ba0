//! Renders waits for a CPU: as a sentence, and as a table with a line for each cause or culprit.

use ratatui::text::{Line, Span};

use super::{Division, Finding, Part, Waits};
use crate::cli::format;
use crate::cli::page::Form;
use crate::cli::presenter::Width;
use crate::cli::subject::Subject;

/// A longer bar says nothing more.
const LONGEST_BAR: usize = 40;
const SHORTEST_BAR: usize = 20;
/// Causes have shorter names, and a pod's name is not recognizable in fewer columns.
const SHORTEST_NAME: usize = 16;
/// The letter and a space before the name; then a space and a number, twice, and the gap before the bar.
const LETTER: usize = 2;
const TIME: usize = 6;
const SHARE: usize = 5;
const NUMBERS: usize = 1 + TIME + 1 + SHARE + 2;

/// The widths that depend on the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    name: usize,
    bar: usize,
    /// The width of the bar of all causes.
    pub(crate) whole: usize,
    color: bool,
}

impl Table {
    /// Names get what they need as long as a short bar is left; the bar gets the rest.
    pub(crate) fn fit<'a>(form: &Form, parts: impl Iterator<Item = &'a Part>) -> Self {
        let longest = parts.map(|part| format::width(&part.name())).max().unwrap_or(0);
        let color = form.color;
        let Width::Columns(columns) = form.width else {
            let whole = LETTER + longest + NUMBERS + LONGEST_BAR;
            return Self { name: longest, bar: LONGEST_BAR, whole, color };
        };
        let room = columns.saturating_sub(LETTER + NUMBERS);
        let name = longest.min(room.saturating_sub(SHORTEST_BAR).max(SHORTEST_NAME));
        let bar = room.saturating_sub(name).min(LONGEST_BAR);
        Self { name, bar, whole: columns.min(LETTER + name + NUMBERS + bar), color }
    }

    pub(crate) fn head(&self, title: &str) -> Line<'static> {
        let name = format::pad_right(&format::cut_end(title, self.name + LETTER), self.name + LETTER);
        format::head(format!("{name} {:>TIME$} {:>SHARE$}", "MS/S", "SHARE"))
    }

    pub(crate) fn row(&self, part: &Part, subject: &Subject) -> Line<'static> {
        let mark = part.cause.mark();
        let name = format::pad_right(&format::cut_middle(&part.name(), self.name), self.name);
        let (time, share) = (milliseconds(part.seconds, subject), format::percent(part.share));
        let text = format!("{} {name} {time:>TIME$} {share:>SHARE$}  ", mark.letter);
        Line::from(vec![Span::raw(text), mark.bar(part.share, self.bar, self.color)])
    }
}

impl Division {
    /// All causes and culprits.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.causes.iter().chain(&self.culprits)
    }
}

/// The waits in one sentence.
pub(crate) fn summary(waits: &Waits, subject: &Subject) -> String {
    let rate = milliseconds(waits.total, subject);
    let quantile = |q| format::or_nothing(q, format::duration);
    let (count, p50, p99) = (waits.count, quantile(waits.p50), quantile(waits.p99));
    let noun = if count == 1 { "wait" } else { "waits" };
    format!("Waited {rate} ms/s for a CPU: {count} {noun}, p50 {p50}, p99 {p99}.")
}

/// Milliseconds per second of the window.
pub(crate) fn milliseconds(seconds: f64, subject: &Subject) -> String {
    format::or_nothing(subject.per_second(seconds), |rate| format::cores(rate * 1e3))
}

/// The text instead of numbers, or below the summary if the waits are not divided.
pub(crate) fn remark(finding: &Finding) -> Option<String> {
    match finding {
        Finding::Off(reason) => Some(format!("sched is off: {}", format::clean(reason))),
        Finding::NeverWaited => Some("It did not wait for a CPU in this window.".to_owned()),
        Finding::Waited(Waits { division: None, mode, .. }) => Some(format!(
            "What for is not known: {} hooks cannot tell, tp_btf and raw_tp can.",
            format::clean(mode)
        )),
        Finding::Waited(Waits { sees_throttling: false, .. }) => Some(
            "Throttling is not measured on this node: throttled time is charged to whatever ran meanwhile."
                .to_owned(),
        ),
        Finding::Waited(_) => None,
    }
}
