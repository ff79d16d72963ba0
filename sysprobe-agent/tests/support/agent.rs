//! A running agent: the real binary on a port of its own, queried through its port and socket.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::panicking;

use sysprobe_agent::config::{Domains, FILE_DOMAINS};
use sysprobe_agent::snapshot::Snapshot;
use tempfile::TempDir;

use super::http::{self, Answer};
use super::samples::Samples;
use super::{command, figure, until};

/// The agent; stopped when it is dropped. Its log is shown if the test fails.
#[derive(Debug)]
pub(crate) struct Agent {
    process: Child,
    directory: TempDir,
    socket: PathBuf,
    pub(crate) port: u16,
    stopped: bool,
}

/// How to start the agent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// The text of a configuration file.
    pub(crate) config: &'a str,
    pub(crate) arguments: &'a [&'a str],
    /// Used instead of a socket in a directory of its own.
    pub(crate) socket: Option<&'a Path>,
}

/// Raises the limits: tests make more system calls and packets than the defaults allow the agent to trace.
fn unlimited(config: &str) -> String {
    let all = ["vfs_calls_per_second = 1000000000\n", "rx_follow_one_in = 1\n"];
    let is_set = |line: &&str| line.split(' ').next().is_some_and(|key| config.contains(key));
    all.into_iter().filter(|line| !is_set(line)).chain([config]).collect()
}

/// The section of a configuration that turns each domain on or off.
pub(crate) fn domains(is_on: impl Fn(&str) -> bool) -> String {
    let switches = Domains::names().iter().map(|name| format!("{name} = {}", is_on(name)));
    format!("[domains]\n{}", switches.collect::<Vec<_>>().join("\n"))
}

/// The same with only these of the domains with programs.
pub(crate) fn with_only(names: &[&str]) -> String {
    domains(|name| names.contains(&name) || FILE_DOMAINS.contains(&name))
}

impl Agent {
    /// Starts an agent and waits until it is ready.
    pub(crate) fn start() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn configured(config: &str) -> Self {
        Self::with(Options { config, ..Options::default() })
    }

    pub(crate) fn with(options: Options) -> Self {
        Self::prepared(options, |_| ())
    }

    /// Like [`Self::with`], but prepares the command before it is started.
    pub(crate) fn prepared(options: Options, prepare: impl FnOnce(&mut Command)) -> Self {
        let agent = Self::spawn_prepared(options, prepare);
        until("the agent is ready", || {
            agent.get("/readyz").is_ok_and(|answer| answer.status == 200).then_some(())
        });
        agent
    }

    /// Starts an agent that listens but may not be ready. The kernel chooses the port, so tests never
    /// collide.
    pub(crate) fn spawn(options: Options) -> Self {
        Self::spawn_prepared(options, |_| ())
    }

    fn spawn_prepared(options: Options, prepare: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("sysprobe.toml");
        fs::write(&config, unlimited(options.config)).expect("the configuration is written");
        let socket = options.socket.map_or_else(|| directory.path().join("agent.sock"), Path::to_owned);
        let log = File::create(directory.path().join("log")).expect("a log");
        let mut command = command::sysprobe();
        command.args(["agent", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--socket").arg(&socket).args(options.arguments).stderr(log);
        prepare(&mut command);
        let process = command.spawn().expect("the agent can be started");
        let mut agent = Self { process, directory, socket, port: 0, stopped: false };
        agent.port = until("the agent listens", || {
            agent.assert_running();
            listening_port(agent.pid())
        });
        agent
    }

    pub(crate) fn assert_running(&mut self) {
        let ended = self.process.try_wait().expect("a child");
        assert!(ended.is_none(), "the agent ended ({ended:?}): {}", self.log());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn get(&self, path: &str) -> io::Result<Answer> {
        http::get(self.port, path, "*/*")
    }

    /// The text of a scrape.
    pub(crate) fn metrics(&self) -> String {
        let answer = self.get("/metrics").expect("the agent answers");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    pub(crate) fn scrape(&self) -> Samples {
        Samples::parse(&self.metrics())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let answer = http::get_local(&self.socket, "/v1/snapshot").expect("the agent answers");
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the child has not been reaped, so the pid is its.
        unsafe { libc::kill(self.pid().cast_signed(), signal) };
    }

    /// Asks it to stop, without waiting.
    pub(crate) fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    /// Stops the agent's execution until `resume`.
    pub(crate) fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it runs");
        self.wait();
    }

    /// Waits until the agent has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = until("the agent ends", || self.process.try_wait().expect("a child"));
        self.stopped = true;
        status
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if panicking() {
            figure(&format!("the log of agent {}:\n{}", self.pid(), self.log()));
        }
        if self.stopped {
            return;
        }
        // A failed test must not panic again while it cleans up.
        if panicking() {
            drop(self.process.kill());
            drop(self.process.wait());
            return;
        }
        self.terminate();
        let status = self.wait();
        assert!(status.success(), "the agent ended with {status}: {}", self.log());
    }
}

/// The TCP port that a process listens on, according to the kernel.
pub(crate) fn listening_port(pid: u32) -> Option<u16> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = descriptors.filter_map(|descriptor| fs::read_link(descriptor.ok()?.path()).ok());
    let sockets: Vec<String> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens =
            fields.get(3) == Some(&"0A") && sockets.iter().any(|socket| fields.get(9) == Some(&&**socket));
        let (_, port) = fields.get(1)?.split_once(':')?;
        listens.then(|| u16::from_str_radix(port, 16).ok())?
    })
}
