//! `cargo xtask cost`: measures what every program of the agent costs, on this host in nanoseconds and on the
//! test kernels in instructions. `--check` reports whether one has become dearer.
//!
//! The measuring program belongs to the agent (`sysprobe-agent/benches/cost/programs.rs`). This side runs it,
//! keeps the counts in `docs/overhead.json`, compares new counts with them, and writes `docs/overhead.md`.
//! `cargo xtask bench overhead` measures whole requests; their section of that page is written here.

mod compare;
mod golden;
mod page;
mod program;

#[path = "../../sysprobe-agent/benches/cost/programs/report.rs"]
mod report;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::vm::measure::Laboratory;
use crate::{apt, build, paths, say};
use compare::Finding;
use golden::{Golden, Kernel};
use page::Section;
use program::Count;

/// The kernel that `--check` uses: of those with every attach mode, the one that most nodes run.
const CHECKED: &str = "6.12";

/// Tools to compare with: bpftrace for `tcpretrans.bt`, libbpf-tools for `vfsstat` and the like.
const TOOLS: [&str; 2] = ["bpftrace", "libbpf-tools"];
/// The server that answers the measured requests.
const SERVER: [&str; 1] = ["nginx-light"];

/// How many times a busy host repeats a measurement that a guest makes once.
const HOST_TIMES: u32 = 12;
/// With three differences, the median holds even if a guest is disturbed once.
const GUEST_TIMES: u32 = 3;

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Args {
    /// Kernels by series, such as 5.10 or 6.12 (all of them; with --check, 6.12)
    kernels: Vec<String>,
    /// Write nothing; fail if a program has become dearer than docs/overhead.json says, by more than a tenth
    #[arg(long, conflicts_with_all = ["host_only", "boots"])]
    check: bool,
    /// Measure on this host only
    #[arg(long, conflicts_with_all = ["kernels", "boots"])]
    host_only: bool,
    /// Measure on the test kernels only
    #[arg(long, conflicts_with = "host_only")]
    lab_only: bool,
    /// Measure nothing; rewrite docs/overhead.md from the stored counts
    #[arg(long, conflicts_with_all = ["kernels", "check", "host_only", "lab_only", "boots"])]
    page_only: bool,
    /// Count programs and requests of these kernels again, each in a single boot, and keep the counts
    #[arg(long, value_name = "KERNEL", num_args = 1..,
          conflicts_with_all = ["kernels", "check", "host_only", "lab_only", "page_only", "boots"])]
    accept: Vec<String>,
    /// Write nothing; print what whole requests cost on the test kernels
    #[arg(long, conflicts_with_all = ["check", "host_only", "lab_only", "page_only", "boots"])]
    requests: bool,
    /// How many times to boot each kernel, to report how far the counts differ
    #[arg(long, value_name = "NUMBER", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..))]
    boots: u32,
}

impl Args {
    pub(crate) fn checking() -> Self {
        Self {
            kernels: Vec::new(),
            check: true,
            host_only: false,
            lab_only: false,
            page_only: false,
            accept: Vec::new(),
            requests: false,
            boots: 1,
        }
    }
}

pub(crate) fn main(args: &Args) -> Result<()> {
    if args.page_only {
        return write_page(&read_golden()?.unwrap_or_default(), Vec::new());
    }
    if !apt::root() {
        bail!("the programs are measured in running kernels: run this as root");
    }
    apt::ensure(&SERVER, "Whole requests are measured")?;
    if args.requests {
        return print_requests(&args.kernels);
    }
    if !args.accept.is_empty() {
        return accept(&args.accept);
    }
    if args.check { check(&args.kernels) } else { measure(args) }
}

fn measure(args: &Args) -> Result<()> {
    apt::ensure(&TOOLS, "Other tools are measured beside the agent")?;
    let program = program::build()?;
    let mut sections = Vec::new();
    if !args.lab_only {
        say::step("Measuring on this host; this takes some minutes. A quiet machine gives narrower spreads.");
        let lines = program::run(&program, HOST_TIMES)?;
        sections.push(page::on_host(&lines, &program::load(), &program::commit()));
    }
    let mut golden = read_golden()?.unwrap_or_default();
    if !args.host_only {
        let boots = boot(&Laboratory::open(&args.kernels)?, &program, args.boots, Count::All)?;
        sections.push(page::differences(&boots));
        for kernel in boots {
            golden.replace(Kernel::least(kernel));
        }
        write(&golden_file(), &golden.to_text())?;
    }
    write_page(&golden, sections)
}

/// Keeps new counts of these kernels. Counts that need a longer measurement stay as they were.
fn accept(kernels: &[String]) -> Result<()> {
    let mut golden = read_golden()?.unwrap_or_default();
    let lab = Laboratory::open(kernels)?;
    let program = program::build()?;
    for kernel in boot(&lab, &program, 1, Count::Programs)?.into_iter().flatten() {
        let kernel = match golden.kernel(&kernel.series) {
            Some(older) => kernel.completed_by(older),
            None => kernel,
        };
        golden.replace(kernel);
    }
    write(&golden_file(), &golden.to_text())?;
    write_page(&golden, Vec::new())
}

fn print_requests(kernels: &[String]) -> Result<()> {
    let program = program::build()?;
    let arguments = program::arguments(1, Count::Requests);
    let mut golden = Golden::default();
    for (series, boots) in Laboratory::open(kernels)?.boot_all(1, &program, &arguments)? {
        for rows in boots {
            let lines = program::parse(&rows)?;
            say::step(format_args!("Linux {series}, program by program:\n\n{}", page::parts(&lines)));
            golden.replace(Kernel::of(series, &program::source()?, &lines));
        }
    }
    say::step(format_args!("Instructions of a request:\n\n{}", page::requests_in_lab(&golden)));
    Ok(())
}

/// Boots the kernels and compares. A program that looks too dear is counted again in one more boot: a guest
/// may be disturbed once, but hardly twice.
fn check(kernels: &[String]) -> Result<()> {
    let golden = read_golden()?.context("docs/overhead.json is missing: run `cargo xtask cost`")?;
    let default = [CHECKED.to_owned()];
    let kernels = if kernels.is_empty() { &default } else { kernels };
    build::objects()?;
    let objects = program::source()?.objects;
    let is_same =
        |series: &&String| golden.kernel(series).is_some_and(|known| known.source.objects == objects);
    let (same, changed): (Vec<&String>, Vec<&String>) = kernels.iter().partition(is_same);
    for series in same {
        say::step(format_args!("The programs are those that were counted on {series}: nothing to measure."));
    }
    if changed.is_empty() {
        return Ok(());
    }
    let changed: Vec<String> = changed.into_iter().cloned().collect();
    let lab = Laboratory::open(&changed)?;
    let program = program::build()?;
    let mut findings = Vec::new();
    for mut boots in boot(&lab, &program, 1, Count::Programs)? {
        let series = boots[0].series.clone();
        let Some(known) = golden.kernel(&series) else {
            bail!("docs/overhead.json has no kernel {series}: run `cargo xtask cost {series}`");
        };
        let mut found = compare::kernels(known, &boots[0]);
        if found.iter().any(Finding::may_be_chance) {
            say::step(format_args!(
                "Something has become dearer on {series}: counting once more to be sure."
            ));
            let again = Laboratory::open(std::slice::from_ref(&series))?;
            boots.extend(boot(&again, &program, 1, Count::Programs)?.into_iter().flatten());
            found = compare::kernels(known, &Kernel::least(boots));
        }
        findings.extend(found);
    }
    judge(&findings)
}

fn judge(findings: &[Finding]) -> Result<()> {
    findings.iter().for_each(say::step);
    let faults = findings.iter().filter(|finding| finding.is_fault()).count();
    if faults > 0 {
        let others = findings.iter().filter(|finding| finding.is_fault() && !finding.may_be_chance());
        let rows = compare::dearer(findings).into_iter().chain(others.map(ToString::to_string));
        bail!(
            "{faults} figures are worse than docs/overhead.json says or not in it: mend that, or accept them \
             with `cargo xtask cost --accept KERNEL` and give the reason in the commit\n{}",
            rows.collect::<Vec<_>>().join("\n")
        );
    }
    say::step("No program has become dearer.");
    Ok(())
}

/// Boots every kernel and collects the rows of each boot.
fn boot(lab: &Laboratory, program: &Path, boots: u32, count: Count) -> Result<Vec<Vec<Kernel>>> {
    let told = lab.boot_all(boots, program, &program::arguments(GUEST_TIMES, count))?;
    let source = program::source()?;
    let kernels = |(label, boots): (&str, Vec<Vec<String>>)| {
        boots.iter().map(|rows| Ok(Kernel::of(label, &source, &program::parse(rows)?))).collect()
    };
    told.into_iter().map(kernels).collect()
}

fn read_golden() -> Result<Option<Golden>> {
    let file = golden_file();
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Golden::parse(&text).map(Some)
}

/// Builds the program that measures other programs.
pub(crate) fn measuring_program() -> Result<PathBuf> {
    program::build()
}

/// Writes the page with a new section on requests, for `cargo xtask bench overhead`.
pub(crate) fn write_requests(report: &str) -> Result<()> {
    write_page(&read_golden()?.unwrap_or_default(), vec![page::requests(report)])
}

fn write_page(golden: &Golden, sections: Vec<Section>) -> Result<()> {
    let old = fs::read_to_string(page_file()).unwrap_or_default();
    write(&page_file(), &page::render(golden, sections, &old))
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    say::step(format_args!("Wrote {}.", file.display()));
    Ok(())
}

fn golden_file() -> PathBuf {
    paths::root().join("docs/overhead.json")
}

fn page_file() -> PathBuf {
    paths::root().join("docs/overhead.md")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_page_shows_the_counts_that_are_kept() {
        let golden = read_golden().unwrap().unwrap();
        let page = fs::read_to_string(page_file()).unwrap();
        assert_eq!(page::render(&golden, Vec::new(), &page), page, "run `cargo xtask cost`");
    }

    /// When all slots are in use, or no storage is left, programs must notice it, and not try each time.
    #[test]
    fn no_program_costs_much_more_where_something_is_used_up() {
        const MORE: u64 = 100;
        let golden = read_golden().unwrap().unwrap();
        for kernel in &golden.kernels {
            let mut cases = BTreeSet::new();
            for row in &kernel.programs {
                let Some((program, what)) = row.program.split_once(" without ") else { continue };
                cases.insert(what);
                let with = kernel.row(&row.mode, program).and_then(|row| row.instructions).unwrap();
                let (without, mode, series) = (row.instructions.unwrap(), &row.mode, &kernel.series);
                assert!(without <= with + MORE, "{} ({mode}) on {series}: {with}, {without}", row.program);
            }
            // Only typed programs use storage.
            let has_storage = kernel.programs.iter().any(|row| row.mode == "tp_btf" && row.domain == "sched");
            let wanted: &[_] = if has_storage { &["a slot", "storage"] } else { &["a slot"] };
            assert!(cases.iter().eq(wanted), "{}: {cases:?}", kernel.series);
        }
    }
}
