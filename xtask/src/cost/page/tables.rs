//! The tables of the page.

use std::fmt::Write;

use super::super::golden::{Golden, Kernel, Row, Watch};
use super::super::report::{Cost, Line, Part, Spread};
use super::reasons::Reasons;

/// The order of rows; an attach mode that is not listed comes last.
const MODES: [&str; 4] = ["tp_btf", "raw_tp", "fentry", "kprobe"];
/// The title of the column of attach modes.
const MODE: &str = "attach mode";

/// The words that name a row: domain, attach mode, program, hook.
type Name<'a> = [&'a str; 4];

pub(super) fn runs(golden: &Golden) -> String {
    let kernels = &golden.kernels;
    let mut out = head(&["domain", MODE, "program", "hook"], kernels.iter().map(|kernel| &*kernel.series));
    let rows = kernels.iter().flat_map(|kernel| &kernel.programs).map(name);
    for name @ [_, mode, program, _] in ordered(rows) {
        let counts = kernels.iter().map(|kernel| count(kernel.row(mode, program)));
        row(&mut out, words(name).into_iter().chain(counts));
    }
    out
}

pub(super) fn switches(golden: &Golden) -> String {
    let kernels = &golden.kernels;
    let mut out = head(&[MODE], kernels.iter().map(|kernel| &*kernel.series));
    for mode in MODES {
        let trips = kernels.iter().map(|kernel| kernel.round_trip(mode));
        let cells = trips.map(|trip| {
            trip.map_or_else(dash, |trip| format!("{} ({})", half(trip.product), half(trip.empty)))
        });
        row(&mut out, [mode.to_owned()].into_iter().chain(cells));
    }
    out
}

pub(super) fn requests(golden: &Golden) -> String {
    let kernels = &golden.kernels;
    let mut out = head(&["with"], kernels.iter().map(|kernel| &*kernel.series));
    let requests = kernels.iter().flat_map(|kernel| &kernel.requests);
    for with in distinct(requests.map(|request| &*request.with)) {
        let cells = kernels.iter().map(|kernel| {
            kernel.request(with).map_or_else(dash, |Watch { nothing, added, .. }| {
                format!("+{added} of {nothing} (+{:.1} %)", *added as f64 / *nothing as f64 * 100.0)
            })
        });
        row(&mut out, [with.to_owned()].into_iter().chain(cells));
    }
    out
}

pub(super) fn parts(lines: &[Line]) -> String {
    let mut out = head(&["with", "program"], ["runs", "each", "together"]);
    for line in lines {
        if let Line::Part(Part { with, program, runs, each }) = line {
            let together = format!("{:.0}", runs * each);
            row(
                &mut out,
                [with.clone(), code(program), format!("{runs:.2}"), format!("{each:.0}"), together],
            );
        }
    }
    out
}

pub(super) fn calls(golden: &Golden) -> String {
    let kernels = &golden.kernels;
    let mut out = head(&["call", "with"], kernels.iter().map(|kernel| &*kernel.series));
    let calls = kernels.iter().flat_map(|kernel| &kernel.calls);
    let mut found = distinct(calls.map(|added| [&*added.call, &*added.with]));
    // Sorted by call; rows of one call stay in the order of measurement.
    found.sort_by_key(|[call, _]| *call);
    for [call, with] in found {
        let cells = kernels.iter().map(|kernel| {
            kernel.call(call, with).map_or_else(dash, |added| format!("+{} ({})", added.added, added.nothing))
        });
        row(&mut out, [call.to_owned(), code(with)].into_iter().chain(cells));
    }
    out
}

pub(super) fn host_calls(lines: &[Line]) -> String {
    let mut out = head(&["call", "with"], ["without, ns", "added, ns"]);
    for line in lines {
        if let Line::Call(call) | Line::Request(call) = line {
            let Spread { median, low, high } = call.added;
            let added = format!("{median:+.0} ({low:+.0} to {high:+.0})");
            row(&mut out, [call.call.clone(), code(&call.with), format!("{:.0}", call.nothing), added]);
        }
    }
    out
}

/// The rows without a number, and why.
pub(super) fn gaps(golden: &Golden) -> String {
    let mut reasons = Reasons::default();
    for kernel in &golden.kernels {
        for refused in &kernel.refused {
            let who = format!("{} {}", refused.domain, refused.mode);
            reasons.add(&refused.reason, who, Some(&kernel.series));
        }
        for row in &kernel.programs {
            if let Some(reason) = &row.reason {
                reasons.add(reason, code(&row.program), Some(&kernel.series));
            }
        }
    }
    reasons.to_text()
}

pub(super) fn differences(boots: &[Vec<Kernel>]) -> String {
    let mut found = String::new();
    let (mut counts, mut same) = (0, 0);
    for boots in boots.iter().filter(|boots| boots.len() > 1) {
        for (what, all) in figures(boots) {
            counts += 1;
            let (least, most) = (all.iter().min().copied(), all.iter().max().copied());
            if least == most {
                same += 1;
            } else {
                let all: Vec<String> = all.iter().map(u64::to_string).collect();
                row(&mut found, [boots[0].series.clone(), what, all.join(", ")]);
            }
        }
    }
    if counts == 0 {
        return "One boot tells of no difference.".to_owned();
    }
    let mut out = format!("Of {counts} counts {same} were the same in each boot.\n");
    if !found.is_empty() {
        out.push_str("The others:\n\n| kernel | what | counts |\n|---|---|---|\n");
        out.push_str(&found);
    }
    out
}

/// Every count of a kernel, with its values in all boots.
fn figures(boots: &[Kernel]) -> Vec<(String, Vec<u64>)> {
    let first = &boots[0];
    let programs = first.programs.iter().map(|row| {
        let counts = boots.iter().filter_map(|boot| boot.row(&row.mode, &row.program)?.instructions);
        (format!("`{}` ({})", row.program, row.mode), counts.collect())
    });
    let trips = first.round_trips.iter().flat_map(|trip| {
        let all: Vec<_> = boots.iter().filter_map(|boot| boot.round_trip(&trip.mode)).collect();
        [
            (
                format!("round trip, empty program, {}", trip.mode),
                all.iter().map(|trip| trip.empty).collect(),
            ),
            (
                format!("round trip, all programs, {}", trip.mode),
                all.iter().map(|trip| trip.product).collect(),
            ),
        ]
    });
    programs.chain(trips).collect()
}

pub(super) fn host_runs(lines: &[Line]) -> String {
    let mut out = head(&["domain", MODE, "program", "hook"], ["ns", "quartiles", "empty program"]);
    let costs: Vec<(Name<'_>, &Cost)> = lines.iter().filter_map(measured).collect();
    for name in ordered(costs.iter().map(|(name, _)| *name)) {
        let Some((_, cost)) = costs.iter().find(|(other, _)| *other == name) else { continue };
        let Spread { median, low, high, .. } = cost.net;
        let numbers = [format!("{median:.1}"), format!("{low:.1}-{high:.1}"), format!("{:.1}", cost.empty)];
        row(&mut out, words(name).into_iter().chain(numbers));
    }
    out
}

pub(super) fn host_switches(lines: &[Line]) -> String {
    let mut out = head(&[MODE], ["round trip without, ns", "empty program, ns", "all programs, ns"]);
    for line in lines {
        if let Line::RoundTrip(trip) = line {
            let halves = |spread: Spread| {
                let [median, low, high] = [spread.median, spread.low, spread.high].map(|ns| ns / 2.0);
                format!("{median:+.0} ({low:+.0} to {high:+.0})")
            };
            let nothing = format!("{:.0}", trip.nothing);
            row(&mut out, [trip.mode.clone(), nothing, halves(trip.empty), halves(trip.product)]);
        }
    }
    out
}

pub(super) fn host_gaps(lines: &[Line]) -> String {
    let mut reasons = Reasons::default();
    for line in lines {
        match line {
            Line::Refused(refused) => {
                reasons.add(&refused.reason, format!("{} {}", refused.domain, refused.mode), None);
            }
            Line::Program(program) => {
                if let Err(reason) = &program.cost {
                    reasons.add(reason, code(&program.name), None);
                }
            }
            _ => {}
        }
    }
    reasons.to_text()
}

fn measured(line: &Line) -> Option<(Name<'_>, &Cost)> {
    let Line::Program(program) = line else { return None };
    let name = [&*program.domain, &*program.mode, &*program.name, &*program.hook];
    Some((name, program.cost.as_ref().ok()?))
}

fn name(row: &Row) -> Name<'_> {
    [&row.domain, &row.mode, &row.program, &row.hook]
}

/// Each name once, by domain and attach mode, otherwise in their original order.
fn ordered<'a>(names: impl Iterator<Item = Name<'a>>) -> Vec<Name<'a>> {
    let mut found = distinct(names);
    let place = |mode: &str| MODES.iter().position(|other| *other == mode).unwrap_or(MODES.len());
    found.sort_by_key(|[domain, mode, ..]| (*domain, place(mode)));
    found
}

/// Each element once, in the original order.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn count(row: Option<&Row>) -> String {
    let Some(count) = row.and_then(|row| row.instructions) else { return dash() };
    match row.and_then(|row| row.verified) {
        Some(verified) => format!("{count} ({verified})"),
        None => format!("{count} (-)"),
    }
}

/// Half of a round trip, which is two context switches.
fn half(count: u64) -> String {
    if count.is_multiple_of(2) { format!("{}", count / 2) } else { format!("{}.5", count / 2) }
}

fn dash() -> String {
    "-".to_owned()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn words([domain, mode, program, hook]: Name<'_>) -> [String; 4] {
    [domain.to_owned(), mode.to_owned(), code(program), code(hook)]
}

/// The head of a table: text columns, then number columns.
fn head<'a>(words: &[&str], numbers: impl IntoIterator<Item = &'a str>) -> String {
    let numbers: Vec<&str> = numbers.into_iter().collect();
    let mut out = String::new();
    row(&mut out, words.iter().chain(&numbers).map(|title| (*title).to_owned()));
    out.push('|');
    out.push_str(&"---|".repeat(words.len()));
    out.push_str(&"---:|".repeat(numbers.len()));
    out.push('\n');
    out
}

fn row(out: &mut String, cells: impl IntoIterator<Item = String>) {
    out.push('|');
    for cell in cells {
        write!(out, " {cell} |").expect("writing to a string cannot fail");
    }
    out.push('\n');
}
