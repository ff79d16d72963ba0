//! `cargo xtask bench overhead`: measures what requests of well-known programs cost with the agent, with
//! parts of it, and with other tools.
//!
//! Parts of a load with a variant alternate with parts without one ([`plan`]). Everything that this starts
//! ends with it: processes are its children, and network namespaces have no names. Cgroups and files of a
//! killed run are removed by the next run ([`crate::leftovers`]).

mod agent;
mod cgroup;
mod figures;
mod floor;
mod load;
mod machine;
mod network;
mod peer;
mod plan;
mod process;
mod programs;
mod report;
mod variant;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::e2e::processes;
use crate::{apt, build, cost, leftovers, say};
use agent::{Agent, Off};
use figures::Figure;
use floor::Floor;
pub(super) use load::worker::{Work, work};
use load::{ALL, Bench, Kind, Load};
use peer::Peer;
use plan::Part;
use programs::Shares;
use report::{Report, Results, Setting};
use variant::Variant;

/// After programs are attached or detached, the kernel patches code and frees programs for a while.
const SETTLE: Duration = Duration::from_millis(500);

/// Fills caches before the first part.
const WARM_UP_SECONDS: u32 = 1;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pairs of parts with and without each variant
    #[arg(long, value_name = "NUMBER", default_value = "8", value_parser = at_least_one())]
    pairs: u32,
    /// How many seconds a part lasts: at low sampling rates, the agent looks at packets in one second of
    /// eight
    #[arg(long, value_name = "NUMBER", default_value = "8", value_parser = at_least_one())]
    seconds: u32,
    /// How many seconds a load runs with a variant before the part begins, so that the agent adapts to it
    #[arg(long, value_name = "NUMBER", default_value = "5", value_parser = at_least_one())]
    lead: u32,
    /// Loads to run (default: all), such as nginx,nginx-veth-1,fio; a wrong name lists them
    #[arg(long = "load", value_name = "LOAD", value_delimiter = ',')]
    loads: Vec<String>,
    /// Domains that are on: default, each (alone), all-but-each, sched+tcp (these), default-vfs (all but it)
    #[arg(long = "variant", value_name = "VARIANT", value_delimiter = ',', default_value = "default,each")]
    variants: Vec<String>,
    /// Measure another tool as well, if it is installed: `ebpf_exporter`, `bpftrace` or `rezolus`
    #[arg(long, value_name = "TOOL[=PROGRAM[,CONFIG]]")]
    against: Vec<String>,
    /// Also measure empty programs at the hooks of the default configuration
    #[arg(long)]
    floor: bool,
    /// Attach them with this program instead of the one that `cargo xtask cost` builds
    #[arg(long, value_name = "PROGRAM", requires = "floor")]
    floor_program: Option<PathBuf>,
    /// Run each load again with the kernel's statistics on, and show what a request spends in each BPF
    /// program: with the variant `default`, and with `--before`
    #[arg(long)]
    programs: bool,
    /// Use this program instead of building the agent
    #[arg(long, value_name = "PROGRAM")]
    agent: Option<PathBuf>,
    /// Also measure this program, an agent of another version, with the default configuration
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Also write the report into docs/overhead.md
    #[arg(long)]
    write: bool,
}

fn at_least_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

pub(super) fn main(args: &Args) -> Result<()> {
    if !apt::root() {
        bail!("the benchmark makes cgroups and networks, and loads programs: run this as root");
    }
    let loads = chosen(&args.loads)?;
    let before = args.before.as_deref().map(found).transpose()?;
    let program = match &args.agent {
        Some(program) => found(program)?,
        None => build::dist()?,
    };
    let floor = match &args.floor_program {
        Some(program) => Some(Floor { program: program.clone() }),
        None if args.floor => Some(Floor { program: cost::measuring_program()? }),
        None => None,
    };
    let directory = std::env::temp_dir().join(leftovers::name_for_overhead("files"));
    fs::create_dir(&directory).with_context(|| format!("making {}", directory.display()))?;
    let agent = Agent { program, directory: directory.clone() };
    let before = before.map(|program| Agent { program, directory: directory.clone() });
    let others = before.map(Variant::Before).into_iter().chain(floor.map(Variant::Floor)).collect();
    let measured = run(args, &loads, others, &agent);
    let ended = processes::end_descendants();
    fs::remove_dir_all(&directory).with_context(|| format!("removing {}", directory.display()))?;
    let text = measured?.to_text();
    ended?;
    say::output(text.trim_end());
    if args.write { cost::write_requests(&text) } else { Ok(()) }
}

fn found(program: &Path) -> Result<PathBuf> {
    program.canonicalize().with_context(|| format!("finding {}", program.display()))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Kind>> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let named = |name: &String| {
        let all = || ALL.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
        let found = ALL.iter().find(|kind| kind.name == name);
        found.with_context(|| format!("{name} is no load: there are {}", all()))
    };
    names.iter().map(named).collect()
}

fn run(args: &Args, loads: &[&'static Kind], others: Vec<Variant>, agent: &Agent) -> Result<Report> {
    processes::supervise()?;
    leftovers::remove();
    machine::check()?;
    let bench = Bench::new(&agent.directory)?;
    let setting = setting(args, &bench, agent)?;
    let mut left_out = Vec::new();
    let variants = variants(args, others, agent, &mut left_out)?;
    let has_programs = |variant: &&Variant| args.programs && variant.of_programs(agent).is_some();
    let counted = variants.iter().filter(has_programs).count();
    if args.programs && counted == 0 {
        bail!("--programs needs the variant `default`, or --before");
    }
    let parts = (loads.len() * variants.len(), loads.len() * counted);
    let minutes = plan::minutes(parts, args.pairs, args.lead, args.seconds);
    say::step(format_args!(
        "Measuring takes about {minutes} min. Only a quiet machine gives narrow quartiles."
    ));
    let (mut results, mut off) = (Vec::new(), BTreeMap::new());
    for kind in loads {
        if let Some(reason) = kind.lacks() {
            say::step(format_args!("The load {} is left out: {reason}.", kind.name));
            left_out.push(format!("{}: {reason}", kind.name));
            continue;
        }
        results.push(measure(args, kind, &bench, &variants, agent, &mut off)?);
    }
    let variants = variants.iter().map(Variant::title).collect();
    Ok(Report { setting, variants, results, left_out, off })
}

fn setting(args: &Args, bench: &Bench, agent: &Agent) -> Result<Setting> {
    let version = agent.version()?;
    let agent = match args.agent {
        Some(_) => version,
        None => format!("{version}, commit {}", machine::commit().unwrap_or_else(|| "unknown".to_owned())),
    };
    Ok(Setting {
        kernel: machine::kernel()?,
        processor: machine::processor(),
        cpus: process::cpus()?.len(),
        server_cpu: bench.server_cpu,
        client_cpu: bench.client_cpu,
        load: machine::load(),
        agent,
        command: machine::command(),
        pairs: args.pairs,
        lead: args.lead,
        seconds: args.seconds,
    })
}

/// The variants, A against A first. The domains are those that work in the default configuration and can be
/// turned off.
fn variants(
    args: &Args,
    others: Vec<Variant>,
    agent: &Agent,
    left_out: &mut Vec<String>,
) -> Result<Vec<Variant>> {
    let mut found = vec![Variant::Nothing];
    let switches = machine::switches()?;
    let domains: Vec<String> =
        agent.start(&[])?.on()?.into_iter().filter(|domain| switches.contains(domain)).collect();
    found.extend(plan::choices(&args.variants, &domains)?.into_iter().map(Variant::Agent));
    found.extend(others);
    for word in &args.against {
        match Peer::find(word)? {
            Ok(peer) => found.push(Variant::Peer(peer)),
            Err(reason) => {
                say::step(format_args!("A tool is left out: {reason}."));
                left_out.push(reason);
            }
        }
    }
    Ok(found)
}

fn measure(
    args: &Args,
    kind: &Kind,
    bench: &Bench,
    variants: &[Variant],
    agent: &Agent,
    off: &mut BTreeMap<Off, BTreeSet<&'static str>>,
) -> Result<Results> {
    let parts = plan::parts(variants.len(), args.pairs);
    let (count, seconds) = (parts.len(), args.seconds);
    say::step(format_args!("{} ({}): {count} parts of {seconds} s.", kind.title, kind.name));
    let mut load = kind.open(bench)?;
    load.run(WARM_UP_SECONDS)?;
    let mut results = Results {
        name: kind.name,
        title: kind.title,
        requests: kind.requests,
        parts: Vec::new(),
        programs: Vec::new(),
    };
    for part in parts {
        let variant = match part {
            Part::Without => &Variant::Nothing,
            Part::With(number) => &variants[number],
        };
        let started = variant.start(agent).with_context(|| format!("starting {}", variant.title()))?;
        process::settle(SETTLE)?;
        if matches!(part, Part::With(_)) {
            load.run(args.lead)?;
        }
        let measured = load.run(args.seconds)?;
        for domain in started.stop()? {
            off.entry(domain).or_default().insert(kind.name);
        }
        results.parts.push((part, measured));
        tell(&results, variants);
    }
    if args.programs {
        results.programs = by_program(args, &mut *load, variants, agent)?;
    }
    Ok(results)
}

/// What a request spends in each program, with the default configuration and with an agent of another
/// version, in turns.
fn by_program(
    args: &Args,
    load: &mut dyn Load,
    variants: &[Variant],
    agent: &Agent,
) -> Result<Vec<(String, Shares)>> {
    let mut found: Vec<_> = variants
        .iter()
        .filter_map(|variant| Some((variant.title(), variant.of_programs(agent)?, Vec::new())))
        .collect();
    say::step(format_args!("The same load with the kernel's statistics on, {} times.", args.pairs));
    for _ in 0..args.pairs {
        for (title, agent, parts) in &mut found {
            let running = agent.start_counting().with_context(|| format!("starting {title}"))?;
            process::settle(SETTLE)?;
            load.run(args.lead)?;
            let before = running.totals()?;
            let measured = load.run(args.seconds)?;
            parts.push(running.totals()?.shares(&before, measured.requests)?);
        }
    }
    Ok(found.into_iter().map(|(title, _, parts)| (title, programs::medians(&parts))).collect())
}

/// Reports the change of the pair that the last part completes.
fn tell(results: &Results, variants: &[Variant]) {
    let [.., (part, _), (Part::Without, _)] = &results.parts[..] else { return };
    let Part::With(number) = part else { return };
    let change = |figure| results.last_change(figure, *number).unwrap_or(f64::NAN);
    say::step(format_args!(
        "{}: CPU time {:+.1} %, rate {:+.1} %, median {:+.1} %, 99 % {:+.1} %.",
        variants[*number].title(),
        change(Figure::Cpu),
        change(Figure::Rate),
        change(Figure::Median),
        change(Figure::P99),
    ));
}
