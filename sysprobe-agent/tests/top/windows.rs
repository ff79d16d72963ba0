//! A load's CPU time in the windows that `top` shows one after the other.

use std::io::{BufRead, BufReader, Lines};
use std::mem;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::row;
use super::support::process::Load;
use super::support::{command, document, figure, until};

/// A command that shows windows until this is dropped.
struct Windows {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Windows {
    /// From the agent at this socket or, without an agent, from the command's own programs.
    fn of(socket: &str) -> Self {
        let mut command = command::sysprobe();
        command.args(["top", "--interval", "500ms", "-o", "json", "--all", "--socket", socket]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it can be started");
        let output = process.stdout.take().expect("a pipe");
        Self { process, lines: BufReader::new(output).lines() }
    }

    fn read(&mut self) -> Value {
        let line = self.lines.next().expect("it goes on").expect("text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Asserts that the windows have the CPU time of a load in the cgroup of this name. Snapshots have the number
/// that the kernel's file shows. So the windows have at least what the file gains within them, and at most
/// what it gains around them. Returns the last window.
pub(crate) fn assert_cpu_time(socket: &str, load: &Load, name: &str) -> Value {
    const ENOUGH_NS: u64 = 300_000_000;
    /// For rounding.
    const TINY: f64 = 1e-6;
    let ran_ns = || load.totals().on_cpu_ns;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let (begun, before) = (Instant::now(), ran_ns());
    let mut windows = Windows::of(socket);
    // The windows that count begin with the end of this one, which has passed.
    windows.read();
    let from = ran_ns();
    let to = until("it has run", || Some(ran_ns()).filter(|now| now - from >= ENOUGH_NS));
    let ends_after = begun.elapsed().as_secs_f64();
    let (mut length, mut ours, mut is_last) = (0.0, 0.0, false);
    let document = loop {
        let document = windows.read();
        let number = |value: &Value| value.as_f64().expect("a number");
        let window = number(&document["window_seconds"]);
        ours += number(&row(&document, name)["cpu_cores"]) * window;
        length += window;
        // The numbers of a snapshot are a little older than its time.
        if mem::replace(&mut is_last, length > ends_after) {
            break document;
        }
    };
    drop(windows);
    let (least, most) = (seconds(to - from), seconds(ran_ns() - before));
    figure(&format!("top: {ours} s of CPU in {length} s; within it {least} s, around it {most} s"));
    assert!((least - TINY..=most + TINY).contains(&ours), "{document}");
    assert_eq!(document::faults("top", &document), Vec::<String>::new());
    document
}
