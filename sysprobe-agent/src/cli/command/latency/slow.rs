//! The individual slow requests of a window, rendered on two lines each, the slowest first.

use std::cmp::Reverse;

use ratatui::text::Line;

use crate::cli::format;
use crate::cli::page::Form;
use crate::cli::presenter::Width;
use crate::cli::target::{self, Target};
use crate::snapshot::{Occupant, SlowRequest, Snapshot, Who, seconds};

/// A live view shows a request long enough for it to be read.
const SHOWN_FOR_NS: u64 = 10_000_000_000;
/// Maximum number of requests on the screen; the JSON form has all of them.
const SHOWN: usize = 20;
/// Stages with a smaller share of the whole are left out.
const WORTH_SHOWING: f64 = 0.01;
const PEER: usize = 26;
const PORT: usize = 5;
const GAP: &str = "  ";

/// Slow requests that were read in a window or shortly before it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slow {
    /// In seconds.
    pub(super) from: f64,
    /// Number of requests, of any workload, that found no room.
    pub(super) lost: u64,
    /// Begin and end of the window.
    begun_ns: u64,
    pub(super) ended_ns: u64,
    /// The slowest first.
    requests: Vec<SlowRequest>,
}

impl Slow {
    /// `None` if the command did not ask for slow requests, or they cannot be measured.
    pub(super) fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self> {
        let slow = later.slow.as_ref()?;
        let lost_before = earlier.slow.as_ref().map_or(0, |slow| slow.lost);
        let shown_from = earlier.monotonic_ns.min(later.monotonic_ns.saturating_sub(SHOWN_FOR_NS));
        let times = shown_from + 1..=later.monotonic_ns;
        let wanted = |one: &&SlowRequest| times.contains(&one.read_ns) && target.has(&one.workload);
        let mut requests: Vec<_> = slow.requests.iter().filter(wanted).cloned().collect();
        requests.sort_by_key(|one| Reverse(one.took_ns));
        Some(Self {
            from: seconds(slow.from_ns),
            lost: slow.lost.saturating_sub(lost_before),
            begun_ns: earlier.monotonic_ns,
            ended_ns: later.monotonic_ns,
            requests,
        })
    }

    /// Only the requests of the window itself.
    pub(super) fn in_window(&self) -> impl Iterator<Item = &SlowRequest> {
        self.requests.iter().filter(|one| one.read_ns > self.begun_ns)
    }

    pub(super) fn lines(&self, form: &Form) -> Vec<Line<'static>> {
        let mut lines = vec![Line::raw(self.title())];
        lines.extend(self.lost().map(Line::raw));
        if !self.requests.is_empty() {
            lines.push(format::head(row("TOOK", "PEER", "PORT", "READER")));
        }
        lines.extend(self.requests.iter().take(SHOWN).flat_map(|one| both_lines(one, form.width)));
        lines
    }

    fn title(&self) -> String {
        let number = self.requests.len();
        let those = if number > SHOWN { format!(", the slowest {SHOWN} of {number}") } else { String::new() };
        let nothing = if number == 0 { ": nothing" } else { "" };
        format!("Read recently, {} or longer{those}{nothing}", format::duration(self.from))
    }

    fn lost(&self) -> Option<String> {
        let lost = format::whole(self.lost);
        (self.lost > 0).then(|| {
            format!("Up to {lost} more slow requests, of all workloads and commands, are not listed.")
        })
    }
}

fn both_lines(one: &SlowRequest, width: Width) -> [Line<'static>; 2] {
    let port = format::pad_left(&one.port.to_string(), PORT);
    let reader = format!("{} ({})", format::clean(&one.thread), one.tid);
    let first = row(&format::duration(seconds(one.took_ns)), &peer(one), &port, &reader);
    let second = format!("{}{GAP}{}", " ".repeat(format::NUMBER_WIDTH), stages(one));
    [first, second].map(|line| match width {
        Width::Columns(columns) => Line::raw(format::cut_end(&line, columns)),
        Width::Full => Line::raw(line),
    })
}

fn row(took: &str, peer: &str, port: &str, reader: &str) -> String {
    let took = format::pad_left(took, format::NUMBER_WIDTH);
    let peer = format::pad_right(&format::cut_middle(peer, PEER), PEER);
    format!("{took}{GAP}{peer}{GAP}{}{GAP}{reader}", format::pad_left(port, PORT))
}

fn peer(one: &SlowRequest) -> String {
    match one.peer {
        Some(address) => std::net::SocketAddr::new(address, one.peer_port).to_string(),
        None => format::NOTHING.to_owned(),
    }
}

/// The stages that matter; the wait for a CPU comes with the occupants of the CPU.
fn stages(one: &SlowRequest) -> String {
    let least = one.took_ns as f64 * WORTH_SHOWING;
    let worth = one.stages.iter().filter(|(_, ns)| *ns as f64 >= least);
    let stage = |(name, ns): &(String, u64)| {
        let text = format!("{} {}", format::clean(name), format::duration(seconds(*ns)));
        if name == "wakeup_to_run" { text + &meanwhile(&one.occupants) } else { text }
    };
    worth.map(stage).collect::<Vec<_>>().join(", ")
}

fn meanwhile(occupants: &[Occupant]) -> String {
    if occupants.is_empty() {
        return String::new();
    }
    let one =
        |occupant: &Occupant| format!("{} {}", name(&occupant.who), format::duration(seconds(occupant.ns)));
    format!(" ({})", occupants.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn name(who: &Who) -> String {
    match who {
        Who::Workload(who) => target::name(who),
        Who::Kernel => "kernel".to_owned(),
        Who::Interrupt => "interrupts".to_owned(),
        Who::Idle => "idle".to_owned(),
        Who::Unknown => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests;
