//! What the scheduler's programs cost, in the kernel and in the agent, beside the alternatives: `cargo xtask
//! bench`.
//!
//! Needs root, loads programs into the running kernel, and prints markdown. The machine may be busy: variants
//! take turns and medians are reported. Nothing here fails because a figure is high.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

mod figures;
mod hook;
mod memory;
mod programs;
mod ring;
mod scan;
mod scrape;
mod slowdown;
mod system;
mod variants;

use anyhow::{Context, Result, bail};

use variants::Bench;

/// The argument that asks for the programs' costs as data instead of the report: for `cargo xtask cost`.
const PROGRAMS: &str = "programs";
/// The one that asks for what calls take longer with them, and with other tools.
const CALLS: &str = "calls";
/// The one that asks for what requests take longer with them, and nothing else.
const REQUESTS: &str = "requests";
/// The argument that asks for empty programs at the agent's hooks: for `cargo xtask bench overhead --floor`.
const FLOOR: &str = "floor";

/// Sections, in the order of the report.
const SECTIONS: [&str; 5] = ["hook", "scan", "slowdown", "memory", "scrape"];

fn main() -> Result<()> {
    // Cargo adds its own flag.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.first().is_some_and(|word| word == ring::RELAY) {
        return ring::relay();
    }
    if words.first().is_some_and(|word| word == FLOOR) {
        return programs::floor::hold();
    }
    if words.first().is_some_and(|word| word == PROGRAMS) {
        let times = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(12);
        if words.iter().any(|word| word == REQUESTS) {
            return programs::requests(times);
        }
        return programs::main(times, words.iter().any(|word| word == CALLS));
    }
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(12);
    let chosen: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| word.parse::<usize>().is_err()).collect();
    if let Some(unknown) = chosen.iter().find(|word| !SECTIONS.contains(word)) {
        bail!("there is no section {unknown}: choose from {}", SECTIONS.join(", "));
    }
    let bench = Bench::new().context("this machine cannot be measured")?;
    let cpu = *bench.facts.cpus.online.last().context("no CPU is online")?;
    system::pin(cpu).context("pinning to one CPU")?;
    println!(
        "# What sysprobe costs\n\nLinux {}, {} CPUs.",
        bench.facts.kernel,
        bench.facts.cpus.online.len()
    );
    for section in SECTIONS {
        if !chosen.is_empty() && !chosen.contains(&section) {
            continue;
        }
        let report = match section {
            "hook" => hook::report(&bench, rounds)?,
            "scan" => scan::report(&bench)?,
            "slowdown" => slowdown::report(&bench, 3 * rounds)?,
            "memory" => memory::report(&bench)?,
            _ => scrape::report(&bench)?,
        };
        println!("\n{report}");
    }
    Ok(())
}
