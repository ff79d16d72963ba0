//! The command line: what can be typed, and which exit code each kind of failure has.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::CompleteEnv;

use crate::client::NotAllowed;
use crate::config::{Config, ConfigError, DEFAULT_LISTEN, DEFAULT_SOCKET, check_absolute};
use crate::host::Privilege;
use crate::latency::LatencyArgs;
use crate::probe::Tier;
use crate::probes::ProbesArgs;
use crate::show::args::{Output, WindowArgs, WorkloadArgs};
use crate::top::{IoArgs, NetArgs, Selection, TopArgs};
use crate::{agent, blame, check, completion, docs, latency, probes, resources, schema, top};

/// Tells, per container, where latency comes from: watches the scheduler with eBPF and reads the cgroups'
/// files.
#[derive(Debug, Parser)]
#[command(name = "sysprobe", version, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str =
    "Exit codes: 0 success, 1 failure, 2 wrong arguments, 77 missing privileges, 78 wrong configuration";

const COMPLETIONS_EXAMPLE: &str = "Example: completion in this shell\n  source <(sysprobe completions \
                                   bash)\n\n\
    Names are those of a running agent at the usual socket.";
const MAN_EXAMPLE: &str = "Example: the manual of one command\n  \
    sysprobe man /tmp && man /tmp/sysprobe-latency.1";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the node agent: metrics over HTTP, and a local socket for the other commands.
    Agent(AgentArgs),
    /// Show the workloads of this host live: CPU, throttling, waits for a CPU, switches.
    #[command(after_help = top::args::TOP_EXAMPLE)]
    Top(ShowCommand<TopArgs>),
    /// Show the storage operations of this host's workloads live: reads, writes, fsyncs, and what fails.
    #[command(after_help = top::args::IO_EXAMPLE)]
    Io(ShowCommand<IoArgs>),
    /// Show the network of this host's workloads live: traffic, retransmissions, round trips, drops.
    #[command(after_help = top::args::NET_EXAMPLE)]
    Net(ShowCommand<NetArgs>),
    /// Show how long a pod, a systemd unit or a cgroup waited for a CPU, why, and who ran meanwhile.
    #[command(after_help = blame::EXAMPLE)]
    Blame(ShowCommand<WorkloadArgs>),
    /// Show where what a pod, a systemd unit or a cgroup received lost time before it was read, stage by
    /// stage.
    #[command(after_help = latency::HELP)]
    Latency(ShowCommand<LatencyArgs>),
    /// Check this node in a minute: of CPU, memory, disks and network what is in use, what waits, what fails,
    /// and who is behind it.
    #[command(after_help = resources::EXAMPLE)]
    Use(ShowCommand<WindowArgs>),
    /// Show what each of the agent's kernel programs costs, how full their maps are, and what was lost.
    #[command(after_help = probes::EXAMPLE)]
    Probes(ShowCommand<ProbesArgs>),
    /// Show what this host offers, what the kernel takes of the agent's programs, and what a running agent
    /// does.
    #[command(after_help = check::EXAMPLE)]
    Check(CheckArgs),
    /// Print the JSON Schema of what a command prints with `-o json`.
    #[command(after_help = schema::EXAMPLE)]
    Schema {
        #[arg(value_name = "DOCUMENT")]
        form: schema::Form,
    },
    /// Print what a shell needs to complete commands, flags and the names of pods.
    #[command(after_help = COMPLETIONS_EXAMPLE)]
    Completions { shell: completion::Shell },
    /// Write the manual pages of all commands into a directory.
    #[command(after_help = MAN_EXAMPLE)]
    Man {
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
    /// Print a page of the documentation that is made from the tables in the program.
    #[command(hide = true)]
    Docs { page: docs::Page },
}

#[derive(Args, Debug)]
pub struct AgentArgs {
    /// Where to serve /metrics, /healthz and /readyz.
    #[arg(long, value_name = "ADDRESS:PORT", help = format!("Where to serve /metrics, /healthz and /readyz \
                                                             [default: {DEFAULT_LISTEN}]"))]
    listen: Option<SocketAddr>,
    /// Configuration file (TOML); flags override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

/// Where things are on this host.
#[derive(Args, Debug)]
pub struct HostArgs {
    #[arg(
        long, value_name = "PATH", help = format!("The agent's local socket [default: {DEFAULT_SOCKET}]"),
        value_parser = PathBufValueParser::new().try_map(check_absolute)
    )]
    socket: Option<PathBuf>,
    /// Use this tier of hooks only, instead of the first that works.
    #[arg(long, value_name = "TIER", value_enum)]
    attach: Option<Tier>,
    /// A BTF file, for kernels that do not show their own.
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
    /// The directory under which the host's cgroup file systems are mounted, if not where they usually are.
    #[arg(long, value_name = "DIRECTORY")]
    cgroup_root: Option<PathBuf>,
    /// For developing programs: take the compiled objects from this directory, not those that are built in.
    #[arg(
        long, value_name = "DIRECTORY", hide = true,
        value_parser = PathBufValueParser::new().try_map(check_absolute)
    )]
    objects: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct ShowCommand<A: Args> {
    #[command(flatten)]
    flags: A,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The form of the output; `wide` is `table`.
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    output: Output,
    /// Changes nothing: there is one report, and no more. For scripts that treat all commands alike.
    #[arg(long)]
    once: bool,
    /// Changes nothing: the report has no colour.
    #[arg(long)]
    no_color: bool,
    /// Configuration file (TOML) to plan with.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only plan, without asking the kernel to verify the programs.
    #[arg(long)]
    no_load: bool,
    #[command(flatten)]
    host: HostArgs,
}

impl Cli {
    /// Answers if a shell asks how a command goes on, and does not come back then. To be called before
    /// anything is written.
    pub fn complete() {
        CompleteEnv::with_factory(Self::command).var(completion::VARIABLE).complete();
    }

    /// Runs the command; the error, if there is one, is a sentence on standard error.
    #[must_use]
    pub fn run(self) -> ExitCode {
        if let Some(Err(error)) = self.command.windows().map(WindowArgs::check) {
            usage_error(error);
        }
        let result = match self.command {
            Command::Agent(args) => args.config().and_then(agent::run),
            Command::Top(args) => match args.flags.selection() {
                Ok(selection) => show_table(selection, args.flags.table.window, args.host),
                Err(error) => usage_error(error),
            },
            Command::Net(args) => show_table(args.flags.selection(), args.flags.table.window, args.host),
            Command::Io(args) => show_table(args.flags.selection(), args.flags.table.window, args.host),
            Command::Blame(args) => show_blame(args),
            Command::Latency(args) => show_latency(args),
            Command::Use(args) => show_resources(args),
            Command::Probes(args) => show_probes(args),
            Command::Check(args) => args.run(),
            Command::Completions { shell } => completion::script(shell),
            Command::Man { directory } => write_manual(&directory),
            Command::Schema { form } => schema::run(form),
            Command::Docs { page } => docs::run(page),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => complain(&error),
        }
    }
}

impl Command {
    /// The flags of a command that shows windows.
    const fn windows(&self) -> Option<&WindowArgs> {
        match self {
            Self::Top(args) => Some(&args.flags.table.window),
            Self::Io(args) => Some(&args.flags.table.window),
            Self::Net(args) => Some(&args.flags.table.window),
            Self::Blame(args) => Some(&args.flags.window),
            Self::Latency(args) => Some(&args.flags.workload.window),
            Self::Use(args) => Some(&args.flags),
            Self::Probes(args) => Some(&args.flags.window),
            Self::Agent(_)
            | Self::Check(_)
            | Self::Completions { .. }
            | Self::Man { .. }
            | Self::Docs { .. }
            | Self::Schema { .. } => None,
        }
    }
}

/// What can only be seen when all flags are known.
fn usage_error(error: String) -> ! {
    clap::Error::raw(ErrorKind::ValueValidation, error + "\n").exit()
}

fn write_manual(directory: &Path) -> anyhow::Result<()> {
    let written = clap_mangen::generate_to(Cli::command(), directory);
    written.with_context(|| format!("cannot write the manual pages into {}", directory.display()))
}

fn show_table(selection: Selection, window: WindowArgs, host: HostArgs) -> anyhow::Result<()> {
    agent::show(&host.config(None)?, selection.scope.query(), |numbers| top::run(window, selection, numbers))
}

fn show_blame(ShowCommand { flags, host }: ShowCommand<WorkloadArgs>) -> anyhow::Result<()> {
    agent::show(&host.config(None)?, flags.scope.query(), |numbers| blame::run(flags, numbers))
}

fn show_latency(ShowCommand { flags, host }: ShowCommand<LatencyArgs>) -> anyhow::Result<()> {
    agent::show(&host.config(None)?, flags.query(), |numbers| latency::run(flags.workload, numbers))
}

fn show_probes(ShowCommand { flags, host }: ShowCommand<ProbesArgs>) -> anyhow::Result<()> {
    agent::show(&host.config(None)?, flags.query(), |numbers| probes::run(flags, numbers))
}

fn show_resources(ShowCommand { flags, host }: ShowCommand<WindowArgs>) -> anyhow::Result<()> {
    agent::show(&host.config(None)?, resources::query(), |numbers| resources::run(flags, numbers))
}

/// Whoever closes the pipe (`| head`) has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind).or(of_json);
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

fn complain(error: &anyhow::Error) -> ExitCode {
    // Nobody is left to tell when standard error is gone too.
    drop(writeln!(io::stderr(), "sysprobe: {error:#}"));
    if error.is::<ConfigError>() {
        ExitCode::from(78)
    } else if Privilege::were_missing(error) || error.is::<NotAllowed>() {
        ExitCode::from(77)
    } else {
        ExitCode::FAILURE
    }
}

impl AgentArgs {
    fn config(self) -> anyhow::Result<Config> {
        let mut config = self.host.config(self.config)?;
        config.listen = self.listen.unwrap_or(config.listen);
        Ok(config)
    }
}

impl CheckArgs {
    fn run(self) -> anyhow::Result<()> {
        let config = self.host.config(self.config)?;
        check::run(&config, check::Options { output: self.output, load: !self.no_load })
    }
}

impl HostArgs {
    /// The file's configuration with these flags over it.
    fn config(self, file: Option<PathBuf>) -> anyhow::Result<Config> {
        let mut config = match file {
            Some(file) => Config::load(&file)?,
            None => Config::default(),
        };
        config.socket = self.socket.unwrap_or(config.socket);
        config.attach = self.attach.or(config.attach);
        config.btf = self.btf.or(config.btf);
        config.cgroup_root = self.cgroup_root.or(config.cgroup_root);
        config.objects = self.objects.or(config.objects);
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_socket_is_refused_as_in_the_file() {
        for command in ["agent", "top", "io", "net", "blame", "latency", "use", "probes", "check"] {
            let refused = Cli::try_parse_from(["sysprobe", command, "--socket", "agent.sock"]);
            let message = refused.expect_err("a relative path").to_string();
            assert!(
                message.contains("--socket") && message.contains("the path must be absolute"),
                "{message}"
            );
        }
    }

    #[test]
    fn tables_have_an_example() {
        for command in ["top", "io", "net", "blame", "latency", "use", "probes", "check"] {
            let help = Cli::try_parse_from(["sysprobe", command, "--help"]).expect_err("help").to_string();
            // What `check` prints ends by itself.
            let example = help.lines().any(|line| {
                line.trim().starts_with(&format!("sysprobe {command} "))
                    && (line.contains("--once") || command == "check")
            });
            assert!(example, "{help}");
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let directory = tempfile::tempdir().expect("a directory");
        write_manual(directory.path()).expect("written");
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = directory.path().join(format!("sysprobe-{}.1", command.get_name()));
            let text = std::fs::read_to_string(&page).expect("a page");
            let has_example = command.get_name() == "agent" || text.contains("Example: ");
            assert!(text.contains(".SH SYNOPSIS") && has_example, "{text}");
        }
        let whole = std::fs::read_to_string(directory.path().join("sysprobe.1")).expect("a page");
        assert!(whole.contains("Exit codes: 0 success"), "{whole}");
        let error = write_manual(Path::new("/nowhere")).expect_err("no directory");
        assert!(error.to_string().contains("/nowhere"), "{error}");
    }

    #[test]
    fn flags_override_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("sysprobe.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:1\"\nsocket = \"/a\"\nslots = 99").expect("written");
        let file = file.to_str().expect("UTF-8");
        let cli = Cli::parse_from(["sysprobe", "agent", "--config", file, "--listen", "127.0.0.1:2"]);
        let Command::Agent(args) = cli.command else { panic!("parsed as something else") };
        let config = args.config().expect("valid");
        assert_eq!(config.listen, SocketAddr::from(([127, 0, 0, 1], 2)));
        assert_eq!((config.socket, config.slots), (PathBuf::from("/a"), 99));
    }
}
