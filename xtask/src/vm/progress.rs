//! The state of one kernel's run, from the lines of its two serial ports. No side effects: lines go in, lines
//! to show and verdicts come out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use xtask_init::Report;

use super::libtest::{Heard, Listener, Verdict};
use super::summary::{self, Outcome};
use crate::results::{self, Account, Failure};

/// The name of the job that is neither a test nor a line for the shell: it prints rows of data.
pub(super) const MEASUREMENT: &str = "cost";

/// How much of the console is shown when a run ends badly.
const CONSOLE: usize = 40;

/// Kernel messages that end the run. A panic stops the machine; after any other, the kernel might go on for a
/// while, but its results would be worthless.
const ALARMS: [&str; 6] = [
    "Kernel panic - not syncing",
    "BUG: ",
    "Oops: ",
    "detected stalls on CPUs/tasks",
    "self-detected stall on CPU",
    "blocked for more than",
];

/// How to read a job's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tests,
    /// A plain program, whose lines are shown.
    Shell,
    /// Rows of data for the command that started the job, and other lines to show.
    Measurement,
}

/// The progress of one run.
pub(super) struct Progress {
    kernel: &'static str,
    /// The flags of the machine, each after a space.
    flags: String,
    job: Option<(String, Kind)>,
    listener: Listener,
    since: Instant,
    console: VecDeque<String>,
    account: Account,
    pub(super) outcomes: Vec<Outcome>,
    /// What a measurement has printed.
    pub(super) rows: Vec<String>,
    pub(super) alarm: Option<String>,
    pub(super) error: Option<String>,
    pub(super) done: bool,
}

impl Progress {
    pub(super) fn new(kernel: &'static str, flags: String) -> Self {
        Self {
            kernel,
            flags,
            job: None,
            listener: Listener::default(),
            since: Instant::now(),
            console: VecDeque::new(),
            account: Account::default(),
            outcomes: Vec::new(),
            rows: Vec::new(),
            alarm: None,
            error: None,
            done: false,
        }
    }

    /// Handles a line of the kernel's console.
    pub(super) fn console(&mut self, line: &str) {
        if self.alarm.is_none() && ALARMS.iter().any(|alarm| line.contains(alarm)) {
            self.alarm = Some(line.trim().to_owned());
        }
        if self.console.len() == CONSOLE {
            self.console.pop_front();
        }
        self.console.push_back(line.to_owned());
    }

    pub(super) fn last_of_console(&self) -> impl Iterator<Item = &str> {
        self.console.iter().map(|line| &**line)
    }

    /// Handles a line of the init program or of a job; returns the line to show, if any.
    pub(super) fn report(&mut self, line: &str) -> Option<String> {
        match Report::parse(line) {
            Some(Report::Begin(job)) => {
                let kind = Kind::of(&job);
                (self.job, self.since) = (Some((job, kind)), Instant::now());
                None
            }
            Some(Report::End(status)) => self.ended(status),
            Some(Report::Done) => {
                self.done = true;
                None
            }
            Some(Report::Error(text)) => {
                self.error = Some(text);
                None
            }
            None => self.output(line),
        }
    }

    fn output(&mut self, line: &str) -> Option<String> {
        let (job, kind) = self.job.as_ref()?;
        if *kind == Kind::Measurement && line.starts_with('{') {
            self.rows.push(line.to_owned());
            return None;
        }
        if *kind != Kind::Tests {
            return (!line.is_empty()).then(|| format!("{:>5} | {line}", self.kernel));
        }
        self.account.hear(line);
        match self.listener.hear(line) {
            Heard::Verdict(name, verdict) => {
                let test = format!("{job}::{name}");
                Some(self.judge(test, verdict))
            }
            Heard::Detail(text) => Some(format!("{:>5} | {text}", self.kernel)),
            Heard::Nothing => None,
        }
    }

    /// Handles the end of a job. Failed tests are already recorded; this records a job that broke off.
    fn ended(&mut self, status: i32) -> Option<String> {
        let (job, kind) = self.job.take()?;
        if kind != Kind::Tests {
            let verdict = if status == 0 { Verdict::Ok } else { Verdict::Failed };
            return Some(self.judge(format!("{job} (status {status})"), verdict));
        }
        let unfinished = self.listener.unfinished();
        let failed = |outcome: &Outcome| {
            outcome.verdict == Verdict::Failed && outcome.test.split("::").next() == Some(&job)
        };
        if status == 0 || (unfinished.is_none() && self.outcomes.iter().any(failed)) {
            return None;
        }
        let test =
            unfinished.map_or_else(|| format!("{job} (status {status})"), |name| format!("{job}::{name}"));
        Some(self.judge(test, Verdict::Failed))
    }

    /// Records the running test as failed because the machine is going down.
    pub(super) fn broke_off(&mut self) -> Option<String> {
        let (job, kind) = self.job.take()?;
        let name = self.listener.unfinished();
        let test = match name {
            Some(name) if kind == Kind::Tests => format!("{job}::{name}"),
            _ => job,
        };
        Some(self.judge(test, Verdict::Failed))
    }

    /// The failed tests, with their output.
    pub(super) fn failures(&mut self) -> Vec<Failure> {
        let failed = self.outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Failed);
        let failed: Vec<String> = failed.map(|outcome| outcome.test.clone()).collect();
        failed.iter().map(|test| self.failure(test)).collect()
    }

    fn failure(&mut self, test: &str) -> Failure {
        let kernel = self.kernel;
        // `sched::name`, or `sched (status 127)` for a binary that did not reach its tests.
        let (file, name) = test.split_once("::").unwrap_or((test.split(' ').next().unwrap_or(test), ""));
        let mut report = self.account.take(name);
        if report == results::Report::default() {
            let alarm = self.alarm.iter().map(|alarm| format!("the kernel said: {alarm}"));
            report = results::Report::of(self.console.iter().cloned().chain(alarm));
        }
        let filter = if name.is_empty() { String::new() } else { format!(" --filter {name}") };
        Failure {
            test: format!("Linux {kernel}: {test}"),
            report,
            alone: format!("cargo xtask vm {kernel}{} --test {file}{filter}", self.flags),
        }
    }

    fn judge(&mut self, test: String, verdict: Verdict) -> String {
        let took = std::mem::replace(&mut self.since, Instant::now()).elapsed();
        let line = format!("{:>5} {test} ... {} ({})", self.kernel, summary::word(verdict), seconds(took));
        self.outcomes.push(Outcome { kernel: self.kernel, test, verdict });
        line
    }
}

impl Kind {
    fn of(job: &str) -> Self {
        match job {
            super::jobs::SHELL => Self::Shell,
            MEASUREMENT => Self::Measurement,
            _ => Self::Tests,
        }
    }
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(lines: &[&str]) -> (Progress, Vec<String>) {
        let mut progress = Progress::new("6.1", " --cpus 8".to_owned());
        let shown = lines.iter().filter_map(|line| progress.report(line)).collect();
        (progress, shown)
    }

    fn outcomes(progress: &Progress) -> Vec<(&str, Verdict)> {
        progress.outcomes.iter().map(|outcome| (&*outcome.test, outcome.verdict)).collect()
    }

    #[test]
    fn tests_are_named_after_their_binary() {
        let (mut progress, shown) = run(&[
            "##guest begin sched",
            "running 2 tests",
            "test a ... ok",
            "test b ... FAILED",
            "failures:",
            "---- b stdout ----",
            "test result: FAILED. 1 passed",
            "##guest end 101",
            "##guest done ",
        ]);
        assert_eq!(outcomes(&progress), [("sched::a", Verdict::Ok), ("sched::b", Verdict::Failed)]);
        assert!(progress.done);
        assert!(shown[0].starts_with("  6.1 sched::a ... ok ("), "{shown:?}");
        assert_eq!(shown[2], "  6.1 | ---- b stdout ----");
        let alone = "cargo xtask vm 6.1 --cpus 8 --test sched --filter b";
        assert_eq!(progress.failures()[0].alone, alone);
    }

    #[test]
    fn a_binary_that_dies_fails_with_the_test_it_was_at() {
        let (progress, _) = run(&["##guest begin sched", "test a ... ", "##guest end 139"]);
        assert_eq!(outcomes(&progress), [("sched::a", Verdict::Failed)]);
        let (progress, _) = run(&["##guest begin sched", "##guest end 127"]);
        assert_eq!(outcomes(&progress), [("sched (status 127)", Verdict::Failed)]);
    }

    #[test]
    fn a_machine_that_dies_fails_the_test_it_was_at() {
        let (mut progress, _) = run(&["##guest begin sched", "test a ... "]);
        progress.console("[ 3.1] Kernel panic - not syncing: Fatal exception");
        assert!(progress.alarm.as_ref().is_some_and(|alarm| alarm.contains("panic")));
        assert!(progress.broke_off().is_some());
        assert_eq!(outcomes(&progress), [("sched::a", Verdict::Failed)]);
        assert!(!progress.done);
    }

    #[test]
    fn a_plain_program_is_shown_and_judged_by_its_status() {
        let (progress, shown) = run(&["##guest begin shell", "hello", "##guest end 0"]);
        assert_eq!(shown[0], "  6.1 | hello");
        assert_eq!(outcomes(&progress), [("shell (status 0)", Verdict::Ok)]);
    }

    #[test]
    fn a_measurements_rows_are_kept_and_its_other_lines_shown() {
        let lines = ["##guest begin cost", "{\"host\":{}}", "Warming up.", "##guest end 0"];
        let (progress, shown) = run(&lines);
        assert_eq!(progress.rows, ["{\"host\":{}}"]);
        assert_eq!(shown[0], "  6.1 | Warming up.");
        assert_eq!(outcomes(&progress), [("cost (status 0)", Verdict::Ok)]);
    }

    #[test]
    fn only_the_consoles_last_lines_are_kept() {
        let mut progress = Progress::new("6.1", String::new());
        (0..100).for_each(|number| progress.console(&number.to_string()));
        let last: Vec<&str> = progress.last_of_console().collect();
        assert_eq!((last.len(), last[0], last[CONSOLE - 1]), (CONSOLE, "60", "99"));
    }
}
