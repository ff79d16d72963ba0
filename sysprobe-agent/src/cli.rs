//! The command line: its commands and arguments, and what runs each.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::CompleteEnv;

use crate::agent;
use crate::config::{Config, DEFAULT_LISTEN, DEFAULT_SOCKET, check_absolute};
use crate::probe::AttachMode;

pub mod args;
mod completion;
mod docs;
mod exit;
mod format;
mod history;
mod json_schema;
pub mod page;
mod pod_names;
mod presenter;
pub mod rows;
mod schema;
pub mod scope;
mod subject;
mod target;
mod tui;
mod waits;
mod window;
pub mod workload_view;

/// One module for each command that reports on the host or its workloads.
pub mod command {
    pub mod blame;
    pub mod check;
    pub mod latency;
    pub mod probes;
    pub mod top;
    pub mod use_report;
}

use args::{Output, WindowArgs, WorkloadArgs};
use command::latency::LatencyArgs;
use command::probes::ProbesArgs;
use command::top::{IoArgs, NetArgs, Selection, TopArgs};
use command::{blame, check, latency, probes, top, use_report};

/// Show, per pod, where latency comes from: CPU, quota, storage, network or memory.
#[derive(Debug, Parser)]
#[command(name = "sysprobe", version, after_help = exit::CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AGENT_HELP: &str = "What does the DaemonSet run on each node? The agent: it loads the eBPF programs, \
    serves Prometheus metrics over HTTP, and answers the other commands over a local socket.\n\n\
    Example: an agent with a configuration file\n  \
    sysprobe agent --config /etc/sysprobe.toml";
const COMPLETIONS_HELP: &str = "How does a shell complete commands, flags and pod names? With the script \
    that this command prints. Names come from the running agent on the default socket.\n\n\
    Example: completion in this shell\n  \
    source <(sysprobe completions bash)";
const MAN_HELP: &str = "Where are the manual pages? This command writes one for each command.\n\n\
    Example: the manual of one command\n  \
    sysprobe man /tmp && man /tmp/sysprobe-latency.1";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the node agent: metrics and a socket for the other commands.
    #[command(long_about = AGENT_HELP)]
    Agent(AgentArgs),
    /// Show a live table of each workload's activity and its waits for a CPU.
    #[command(long_about = top::args::TOP_HELP)]
    Top(ShowCommand<TopArgs>),
    /// Show which workloads have slow storage: reads, writes, fsyncs.
    #[command(long_about = top::args::IO_HELP)]
    Io(ShowCommand<IoArgs>),
    /// Show which workloads have a slow network: retransmits, RTT, drops.
    #[command(long_about = top::args::NET_HELP)]
    Net(ShowCommand<NetArgs>),
    /// Show what kept a workload from a CPU, and for how long.
    #[command(long_about = blame::HELP)]
    Blame(ShowCommand<WorkloadArgs>),
    /// Break down a workload's receive latency by stage.
    #[command(long_about = latency::HELP, after_long_help = latency::NOTE)]
    Latency(ShowCommand<LatencyArgs>),
    /// Check this node: utilization, saturation and errors (USE method).
    #[command(long_about = use_report::HELP)]
    Use(ShowCommand<WindowArgs>),
    /// Show what the BPF programs cost, how full maps are, and losses.
    #[command(long_about = probes::HELP, after_long_help = probes::NOTE)]
    Probes(ShowCommand<ProbesArgs>),
    /// Show what this host offers and what the agent would do on it.
    #[command(long_about = check::HELP)]
    Check(CheckArgs),
    /// Print the JSON Schema of a document of `-o json`.
    #[command(long_about = schema::HELP, after_long_help = schema::NOTE)]
    Schema {
        #[arg(value_name = "DOCUMENT")]
        form: schema::Form,
    },
    /// Print the completion script of a shell.
    #[command(long_about = COMPLETIONS_HELP)]
    Completions { shell: completion::Shell },
    /// Write the manual pages into a directory.
    #[command(long_about = MAN_HELP)]
    Man {
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
    /// Print a page, or a part of one, that the documentation takes from the program.
    #[command(hide = true)]
    Docs { page: docs::Page, of: Option<String> },
}

/// The environment variable that names the configuration file. A pod's own, so `check` in the agent's
/// container plans with the agent's file.
const CONFIG: &str = "SYSPROBE_CONFIG";

#[derive(Args, Debug)]
pub struct AgentArgs {
    #[arg(long, value_name = "ADDRESS:PORT", help = format!("Serve /metrics, /healthz and /readyz here \
                                                             [default: {DEFAULT_LISTEN}]"))]
    listen: Option<SocketAddr>,
    /// Configuration file in TOML; flags override it.
    #[arg(long, value_name = "FILE", env = CONFIG, hide_env_values = true)]
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
    /// Use only this attach mode, instead of the best one that works.
    #[arg(long, value_name = "MODE", value_enum)]
    attach: Option<AttachMode>,
    /// BTF file, for kernels without BTF of their own.
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
    /// Directory under which the host's cgroup file systems are mounted [default: as in /proc/self/mountinfo]
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
    /// Output format; `wide` is the same as `table`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
    /// Accepted for scripts that pass it to all commands; `check` prints one report anyway.
    #[arg(long)]
    once: bool,
    /// Accepted for scripts that pass it to all commands; the report has no colour anyway.
    #[arg(long)]
    no_color: bool,
    /// Plan with this configuration file in TOML.
    #[arg(long, value_name = "FILE", env = CONFIG, hide_env_values = true)]
    config: Option<PathBuf>,
    /// Plan only: do not have the kernel verify the programs.
    #[arg(long)]
    no_load: bool,
    #[command(flatten)]
    host: HostArgs,
}

impl Cli {
    /// Answers a shell's completion request and exits; otherwise returns. Call it before any output is
    /// written.
    pub fn complete() {
        CompleteEnv::with_factory(Self::command).var(completion::VARIABLE).complete();
    }

    /// Runs the command and writes an error, if any, to standard error.
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
            Command::Use(args) => show_use(args),
            Command::Probes(args) => show_probes(args),
            Command::Check(args) => args.run(),
            Command::Completions { shell } => completion::script(shell),
            Command::Man { directory } => write_manual(&directory),
            Command::Schema { form } => schema::run(form),
            Command::Docs { page, of } => docs::run(page, &Self::command(), of.as_deref()),
        };
        exit::report(result)
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

/// Reports an error that shows only once all flags are parsed, and exits.
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

fn show_use(ShowCommand { flags, host }: ShowCommand<WindowArgs>) -> anyhow::Result<()> {
    agent::show(&host.config(None)?, use_report::query(), |numbers| use_report::run(flags, numbers))
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
    /// The file's configuration, overridden by these flags.
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
pub(crate) mod fixture;

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
            // `check` prints one report and exits anyway.
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
