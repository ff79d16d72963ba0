//! Running other programs: environment, exit status, time limit.
//!
//! `cargo xtask` is itself started by cargo, which leaves a package's variables, a toolchain choice and a
//! library path in the environment. A child that builds for another target with another compiler must see
//! none of them.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{paths, say};

/// How long a child's own children may keep printing after the child has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How often a child with a time limit is polled.
const POLL: Duration = Duration::from_millis(50);

/// The cargo that started us, for host builds: same toolchain and flags, without the package's variables.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without(&mut command, leaks_package);
    command.current_dir(paths::root()).stdin(Stdio::null());
    command
}

/// Any other program, with nothing of the outer cargo in its environment.
pub(crate) fn tool(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    without(&mut command, leaks_cargo);
    command.current_dir(paths::root()).stdin(Stdio::null());
    command
}

/// Runs a command to its end; what it prints goes to stderr.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    let status = command.stdout(Stdio::from(io::stderr())).status();
    succeeded(&shown, status.with_context(|| format!("`{shown}` cannot be started"))?)
}

/// Like [`run`], but gives up (and ends the child) after a time.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<()> {
    let shown = describe(command);
    let child = command.stdout(Stdio::from(io::stderr())).spawn();
    let mut child = child.with_context(|| format!("`{shown}` cannot be started"))?;
    match wait_within(&mut child, limit)? {
        Some(status) => succeeded(&shown, status),
        None => bail!("`{shown}` took more than {} s", limit.as_secs()),
    }
}

/// Runs a command and passes on what it prints (both streams, in their order) line by line.
pub(crate) fn run_watched(command: Command) -> Result<()> {
    let shown = describe(&command);
    succeeded(&shown, watch(command, say::output)?)
}

/// Runs a command; returns what it printed, both streams in their order, and whether it succeeded.
pub(crate) fn collect(command: Command) -> Result<(Vec<String>, bool)> {
    let mut lines = Vec::new();
    let status = watch(command, |line| lines.push(line.to_owned()))?;
    Ok((lines, status.success()))
}

/// Runs a command and passes each line that it prints to `seen`. The command's children may still hold the
/// pipe when the command has ended, so the wait for them is limited.
fn watch(mut command: Command, mut seen: impl FnMut(&str)) -> Result<ExitStatus> {
    let shown = describe(&command);
    let (printed, writer) = io::pipe().context("making a pipe")?;
    let child = command.stdout(writer.try_clone()?).stderr(writer).spawn();
    let mut child = child.with_context(|| format!("`{shown}` cannot be started"))?;
    // `command` holds a copy of the pipe's write end; unless it is dropped, the reader never sees end of
    // file.
    drop(command);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        // The thread ends when the caller stops receiving.
        let mut lines = BufReader::new(printed).split(b'\n').map_while(Result::ok);
        lines.try_for_each(|line| sender.send(line).ok())
    });
    let mut ended: Option<Instant> = None;
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => seen(&String::from_utf8_lossy(&line)),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if ended.is_some_and(|at| at.elapsed() > LAST_WORDS) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
    }
    Ok(child.wait()?)
}

/// What a command prints on stdout; `None` if it cannot be run or fails.
pub(crate) fn capture(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a command prints on stdout; its stderr is reported only if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let output = command.output().with_context(|| format!("starting `{shown}`"))?;
    if !output.status.success() {
        let said = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy);
        bail!("`{shown}` failed: {}", said.map(|text| text.trim().to_owned()).join("\n"));
    }
    String::from_utf8(output.stdout).with_context(|| format!("what `{shown}` prints is no text"))
}

fn wait_within(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(POLL);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn succeeded(shown: &str, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// The command as a user would type it, without the program's directory.
fn describe(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn without(command: &mut Command, leaks: fn(&str) -> bool) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(leaks) {
            command.env_remove(&name);
        }
    }
}

/// Variables that `cargo run` sets for the package it runs.
fn leaks_package(name: &str) -> bool {
    const PREFIXES: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    const NAMES: [&str; 3] = ["CARGO_BIN_NAME", "CARGO_CRATE_NAME", "LD_LIBRARY_PATH"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || NAMES.contains(&name)
}

/// Variables that choose a compiler, its flags or a target directory. How cargo reaches a registry stays.
fn leaks_cargo(name: &str) -> bool {
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_INSTALL_ROOT",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    const PREFIXES: [&str; 5] = ["CARGO", "RUSTC", "RUSTFLAGS", "RUSTDOC", "RUSTUP_TOOLCHAIN"];
    let kept = KEPT.iter().any(|prefix| name.starts_with(prefix));
    name == "LD_LIBRARY_PATH" || (!kept && PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_cargo_does_not_leak() {
        for name in
            ["CARGO", "CARGO_TARGET_DIR", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTUP_TOOLCHAIN"]
        {
            assert!(leaks_cargo(name), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_REGISTRIES_A_INDEX", "RUSTUP_HOME", "PATH"] {
            assert!(!leaks_cargo(name), "{name}");
        }
    }

    #[test]
    fn host_builds_keep_toolchain_and_flags() {
        assert!(leaks_package("CARGO_PKG_NAME"));
        for name in ["RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_TARGET_DIR"] {
            assert!(!leaks_package(name), "{name}");
        }
    }

    #[test]
    fn a_grandchild_that_holds_the_pipe_is_not_waited_for() {
        let start = Instant::now();
        let mut shell = tool("/bin/sh");
        shell.args(["-c", "sleep 60 & echo $!; echo said >&2"]);
        let (lines, succeeded) = collect(shell).unwrap();
        assert!(succeeded);
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(lines[1], "said");
        run(tool("kill").arg(&lines[0])).unwrap();
    }

    #[test]
    fn a_child_over_its_time_is_ended() {
        let start = Instant::now();
        let error = run_within(tool("sleep").arg("60"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("took more than"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_failure_names_the_command() {
        let error = run(tool("/bin/sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` failed (exit status: 3)");
    }
}
