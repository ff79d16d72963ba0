//! What the plain and the live form have in common: the sentences, and how wide the columns are.

use super::{
    bar,
    model::{Blame, Division, Finding, Part, Waits},
    target::Target,
};
use crate::{
    show::{Width, format},
    snapshot::DomainState,
};

pub(super) const GONE: &str = "it has gone: these are its last numbers";

/// A bar of more columns says nothing more.
const LONGEST_BAR: usize = 40;
const SHORTEST_BAR: usize = 20;
/// Every cause has a shorter one; a pod's in fewer columns is no longer recognised.
const SHORTEST_NAME: usize = 16;
/// The letter and a space before the name; then a space and a number, twice, and the gap before the bar.
const LETTER: usize = 2;
const TIME: usize = 6;
const SHARE: usize = 5;
const NUMBERS: usize = 1 + TIME + 1 + SHARE + 2;

/// The widths of what has no fixed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) name: usize,
    pub(super) bar: usize,
    /// Of the bar of all causes.
    pub(super) whole: usize,
}

impl Layout {
    /// Names get what they need as long as a short bar is left; the bar gets the rest.
    pub(super) fn fit(width: Width, division: &Division) -> Self {
        let parts = division.causes.iter().chain(&division.culprits);
        let longest = parts.map(|part| format::width(&part.name())).max().unwrap_or(0);
        let Width::Columns(columns) = width else {
            let whole = LETTER + longest + NUMBERS + LONGEST_BAR;
            return Self { name: longest, bar: LONGEST_BAR, whole };
        };
        let room = columns.saturating_sub(LETTER + NUMBERS);
        let name = longest.min(room.saturating_sub(SHORTEST_BAR).max(SHORTEST_NAME));
        let bar = room.saturating_sub(name).min(LONGEST_BAR);
        Self { name, bar, whole: columns.min(LETTER + name + NUMBERS + bar) }
    }

    pub(super) fn head(&self, title: &str) -> String {
        let name = format::pad_right(&format::cut_end(title, self.name + LETTER), self.name + LETTER);
        format!("{name} {:>TIME$} {:>SHARE$}", "MS/S", "SHARE")
    }

    /// What stands before a part's bar.
    pub(super) fn numbers(&self, part: &Part, blame: &Blame) -> String {
        let name = format::pad_right(&format::cut_middle(&part.name(), self.name), self.name);
        let time = per_second(part.seconds, blame).map(|rate| format::cores(rate * 1e3));
        let time = time.unwrap_or_else(|| format::NOTHING.to_owned());
        let share = format::percent(part.share);
        format!("{} {name} {time:>TIME$} {share:>SHARE$}  ", bar::letter(part.cause))
    }
}

/// Seconds per second of the window.
pub(super) fn per_second(seconds: f64, blame: &Blame) -> Option<f64> {
    let window = blame.window.as_secs_f64();
    (window > 0.0).then(|| seconds / window)
}

/// Everything in one line.
pub(super) fn summary(waits: &Waits, blame: &Blame) -> String {
    let rate = format::or_nothing(per_second(waits.total, blame), |rate| format::cores(rate * 1e3));
    let quantile = |q| format::or_nothing(q, format::duration);
    let (count, p50, p99) = (waits.count, quantile(waits.p50), quantile(waits.p99));
    let noun = if count == 1 { "wait" } else { "waits" };
    format!("Waited {rate} ms/s for a CPU: {count} {noun}, p50 {p50}, p99 {p99}.")
}

/// What there is to say instead of numbers, or below the summary where they are not divided.
pub(super) fn remark(finding: &Finding, sched: Option<&DomainState>) -> Option<String> {
    match finding {
        Finding::Off(reason) => Some(format!("sched is off: {}", format::clean(reason))),
        Finding::NeverWaited => Some("It did not wait for a CPU in this window.".to_owned()),
        Finding::Waited(Waits { division: None, .. }) => {
            let hook = sched.map_or("these", |domain| domain.hook.as_str());
            Some(format!(
                "What for is not known: {} hooks cannot tell, tp_btf and raw_tp can.",
                format::clean(hook)
            ))
        }
        Finding::Waited(_) => None,
    }
}

/// What the window is of.
pub(super) fn subject(target: &Target, blame: &Blame) -> String {
    match blame.containers {
        0 | 1 => target.name(),
        containers => format!("{} ({containers} containers)", target.name()),
    }
}
