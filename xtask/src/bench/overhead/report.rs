//! The report as markdown: every figure of the default variant, then the CPU time of every variant. No side
//! effects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::agent::Off;
use super::figures::{Figure, Measured, Spread};
use super::plan::Part;
use super::programs::{Share, Shares};

/// Explains the numbers in the tables.
const EXPLANATION: &str = "\
A variant is what runs beside the load: `default` is the agent in its default configuration. A
domain that is *shed* was paused by the agent, because it would cost the node too much. Each
measurement with a variant is compared with the mean of the two measurements without it, just before
and just after. Such a comparison is a pair. The tables show the median of the changes over all
pairs, with the quartiles in brackets. `A against A` repeats the measurement without starting
anything. It shows the machine's own variation: a change within its quartiles is not significant.
CPU time is that of the server's cgroup, divided by the requests; the client's CPU time is not
included. fio is client and server in one, so its CPU time is that of its reading thread.";

/// Explains the table of programs.
const PROGRAMS: &str = "\
What a request spends in each BPF program, on all CPUs, with the client's part, and with the start
and the end of the client: runs for each request, and the time of a run by the kernel's statistics.
They are on only in these measurements, and about one of their two clock reads is in the time.
Medians over the measurements. Programs with fewer than one run for 100 requests are left out, also
of the total.";

/// Facts about the machine and the run.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) kernel: String,
    pub(super) processor: String,
    pub(super) cpus: usize,
    pub(super) server_cpu: usize,
    pub(super) client_cpu: usize,
    pub(super) load: String,
    pub(super) agent: String,
    pub(super) command: String,
    pub(super) pairs: u32,
    pub(super) lead: u32,
    pub(super) seconds: u32,
}

/// The parts of one load, in order.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) requests: &'static str,
    pub(super) parts: Vec<(Part, Measured)>,
    /// What a request spends in each BPF program, by variant, if that was measured.
    pub(super) programs: Vec<(String, Shares)>,
}

/// All measurements, and those that were left out.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) setting: Setting,
    /// Titles; the first is A against A.
    pub(super) variants: Vec<String>,
    pub(super) results: Vec<Results>,
    pub(super) left_out: Vec<String>,
    /// The domains that were not active, with the loads during which that was seen.
    pub(super) off: BTreeMap<Off, BTreeSet<&'static str>>,
}

impl Results {
    /// By how many percent a figure is higher with a variant, over all pairs.
    pub(super) fn change(&self, figure: Figure, variant: usize) -> Option<Spread> {
        Spread::of(self.changes(figure, variant))
    }

    /// The change of the last pair alone.
    pub(super) fn last_change(&self, figure: Figure, variant: usize) -> Option<f64> {
        self.changes(figure, variant).last()
    }

    fn changes(&self, figure: Figure, variant: usize) -> impl Iterator<Item = f64> {
        let threes = self.parts.windows(3).filter(move |three| three[1].0 == Part::With(variant));
        threes.map(move |three| figure.change(&three[0].1, &three[1].1, &three[2].1))
    }

    fn columns(&self) -> impl Iterator<Item = (String, &Shares)> {
        self.programs.iter().map(|(variant, shares)| (format!("{}, {variant}", self.name), shares))
    }

    /// The median of all parts without a variant.
    fn without(&self, figure: Figure) -> Option<f64> {
        let parts = self.parts.iter().filter(|(part, _)| *part == Part::Without);
        Spread::of(parts.map(|(_, measured)| figure.of(measured))).map(|spread| spread.median)
    }
}

impl Report {
    pub(super) fn to_text(&self) -> String {
        let parts = [self.head(), self.of_default(), self.of_variants(), self.of_programs(), self.notes()];
        let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("\n\n") + "\n"
    }

    fn head(&self) -> String {
        let Setting { kernel, processor, cpus, server_cpu, client_cpu, .. } = &self.setting;
        let Setting { load, agent, command, pairs, lead, seconds, .. } = &self.setting;
        let place = if server_cpu == client_cpu {
            format!("servers and clients on CPU {server_cpu}")
        } else {
            format!("servers on CPU {server_cpu}, clients on CPU {client_cpu}")
        };
        format!(
            "By `{command}`:\n\n\
             - {agent}\n\
             - Linux {kernel}, {processor}, {cpus} CPUs, load {load} at the start; {place}\n\
             - {pairs} pairs of measurements of {seconds} s for each load and variant, each measurement \
             after {lead} s of load\n\n\
             {EXPLANATION}"
        )
    }

    /// The first variant after A against A: the default, unless the command line says otherwise.
    fn of_default(&self) -> String {
        let Some(title) = self.variants.get(1) else { return String::new() };
        let mut out = head(&["load", "figure"], &["without", title, &self.variants[0]]);
        for results in &self.results {
            for figure in Figure::ALL {
                let first = figure == Figure::Cpu;
                let cells = [
                    if first { results.title.to_owned() } else { String::new() },
                    name(figure, results.requests),
                    results.without(figure).map_or_else(dash, |value| unit(figure, value)),
                    change(results.change(figure, 1)),
                    change(results.change(figure, 0)),
                ];
                row(&mut out, &cells);
            }
        }
        out
    }

    fn of_variants(&self) -> String {
        if self.variants.len() <= 2 {
            return String::new();
        }
        let names: Vec<&str> = self.results.iter().map(|results| results.name).collect();
        let mut out =
            "The change of CPU time per request with each variant, by the name of the load:\n\n".to_owned();
        out.push_str(&head(&["variant"], &names));
        let order = (1..self.variants.len()).chain([0]);
        for variant in order {
            let cells = self.results.iter().map(|results| change(results.change(Figure::Cpu, variant)));
            row(&mut out, &[self.variants[variant].clone()].into_iter().chain(cells).collect::<Vec<_>>());
        }
        out
    }

    /// A column for each load and variant, a row for each program, the most expensive ones first.
    fn of_programs(&self) -> String {
        let columns: Vec<(String, &Shares)> = self.results.iter().flat_map(Results::columns).collect();
        // The first column that has a program decides on its place.
        let costs: BTreeMap<&String, f64> = columns
            .iter()
            .rev()
            .flat_map(|(_, shares)| shares.iter())
            .map(|(name, of)| (name, of.whole()))
            .collect();
        if costs.is_empty() {
            return String::new();
        }
        let mut names: Vec<&String> = costs.keys().copied().collect();
        names.sort_by(|one, other| costs[other].total_cmp(&costs[one]));
        let titles: Vec<&str> = columns.iter().map(|(title, _)| &**title).collect();
        let mut out = format!("{PROGRAMS}\n\n{}", head(&["program"], &titles));
        for name in names {
            let cells = columns.iter().map(|(_, shares)| shares.get(name).map_or_else(dash, share));
            row(&mut out, &[format!("`{name}`")].into_iter().chain(cells).collect::<Vec<_>>());
        }
        let sums = columns.iter().map(|(_, shares)| shares.values().map(Share::whole).sum::<f64>());
        let sums = sums.map(|sum| format!("{sum:.0} ns"));
        row(&mut out, &["total".to_owned()].into_iter().chain(sums).collect::<Vec<_>>());
        out
    }

    fn notes(&self) -> String {
        let mut out = String::new();
        let off = self.off.iter().map(|(Off { domain, reason }, loads)| {
            let loads = if loads.len() == self.results.len() {
                "every load".to_owned()
            } else {
                loads.iter().copied().collect::<Vec<_>>().join(", ")
            };
            format!("`{domain}` was off with {loads}: {reason}")
        });
        for note in off.chain(self.left_out.iter().map(|reason| format!("left out: {reason}"))) {
            writeln!(out, "- {note}").expect("writing to a string cannot fail");
        }
        out
    }
}

fn name(figure: Figure, requests: &str) -> String {
    match figure {
        Figure::Cpu => format!("CPU time per {}", requests.trim_end_matches('s')),
        Figure::Rate => format!("{requests} per second"),
        Figure::Median => "median latency".to_owned(),
        Figure::P99 => "p99 latency".to_owned(),
    }
}

fn unit(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Rate => format!("{value:.0}"),
        _ if value < 10_000.0 => format!("{value:.0} ns"),
        _ if value < 1e6 => format!("{:.1} us", value / 1e3),
        _ => format!("{:.1} ms", value / 1e6),
    }
}

fn share(Share { runs, ns }: &Share) -> String {
    format!("{runs:.2} x {ns:.0} ns")
}

fn change(spread: Option<Spread>) -> String {
    spread
        .map_or_else(dash, |Spread { low, median, high }| format!("{median:+.1} % ({low:+.1} to {high:+.1})"))
}

fn dash() -> String {
    "-".to_owned()
}

fn head(words: &[&str], numbers: &[&str]) -> String {
    let mut out = String::new();
    row(&mut out, &words.iter().chain(numbers).map(|title| (*title).to_owned()).collect::<Vec<_>>());
    writeln!(out, "|{}{}", "---|".repeat(words.len()), "---:|".repeat(numbers.len()))
        .expect("writing to a string cannot fail");
    out
}

fn row(out: &mut String, cells: &[String]) {
    writeln!(out, "| {} |", cells.join(" | ")).expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests;
