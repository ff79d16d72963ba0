//! Test results, kept for the end of `cargo xtask ci`: the counts, and for each failed test its place, its
//! output and the command that runs it alone.
//!
//! [`Account`] parses libtest's output; its caller knows where the tests are and how to run one alone.

use std::collections::BTreeSet;

/// A failed test's output is shown up to this many lines: some from its cause on, then the last ones.
const SHOWN_LINES: usize = 30;
const FROM_PANIC: usize = 12;
/// A snapshot's difference has a head of four lines and unchanged lines around each change.
const FROM_DIFFERENCE: usize = 24;

/// Stands between a thread's name and the place of the panic.
const PANICKED: &str = " panicked at ";
/// insta prints this line above a snapshot's difference, then panics.
const DIFFERENCE: &str = "-old snapshot";
const BACKTRACE: &str = "stack backtrace:";

/// Totals over everything that ran.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    pub(crate) passed: u64,
    pub(crate) ignored: u64,
    pub(crate) failures: Vec<Failure>,
    /// Skipped checks with the reason: `the advisories: the database is out of reach`.
    pub(crate) left_out: BTreeSet<String>,
}

/// A test, or a test program, that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) test: String,
    pub(crate) report: Report,
    /// The command that runs it alone.
    pub(crate) alone: String,
}

/// What a failed test printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report(Vec<String>);

/// Parses the part of libtest's output that follows the last test: the output of each failed test.
#[derive(Debug, Default)]
pub(crate) struct Account {
    reports: Vec<(String, Report)>,
    open: bool,
}

// === impl Results ===

impl Results {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
        self.left_out.extend(other.left_out);
    }

    /// A result without failures that reports one skipped check.
    pub(crate) fn without(what: String) -> Self {
        Self { left_out: BTreeSet::from([what]), ..Self::default() }
    }
}

// === impl Failure ===

impl Failure {
    /// The lines for this failure at the end of the log.
    pub(crate) fn lines(&self) -> Vec<String> {
        let place = self.report.place().map(|place| format!(" ({place})")).unwrap_or_default();
        let mut lines = vec![format!("---- FAILED: {}{place}", self.test)];
        lines.extend(self.report.shown().iter().map(|line| format!("    {line}")));
        lines.push(format!("  alone: {}", self.alone));
        lines
    }
}

// === impl Report ===

impl Report {
    pub(crate) fn of(lines: impl IntoIterator<Item = String>) -> Self {
        Self(lines.into_iter().collect())
    }

    pub(crate) fn push(&mut self, line: String) {
        self.0.push(line);
    }

    /// Shows the cause first; the agents' logs after it may be long.
    fn shown(&self) -> Vec<String> {
        let lines = self.without_foreign_frames();
        if lines.len() <= SHOWN_LINES {
            return lines;
        }
        let (cause, count) = cause(&lines);
        let last = (lines.len() - (SHOWN_LINES - count - 1)).max(cause);
        let first = cause..last.min(cause + count);
        let omitted = lines.len() - first.len() - (lines.len() - last);
        let gap = format!("({omitted} lines are left out)");
        lines[first].iter().cloned().chain([gap]).chain(lines[last..].iter().cloned()).collect()
    }

    /// Omits a backtrace's frames in the standard library and in other packages: they are most of its lines.
    fn without_foreign_frames(&self) -> Vec<String> {
        let mut kept = Vec::new();
        let mut in_backtrace = false;
        let mut function = None;
        for line in &self.0 {
            in_backtrace = line == BACKTRACE || in_backtrace && is_frame(line);
            if !in_backtrace || line == BACKTRACE {
                kept.push(line);
            } else if let Some(place) = line.trim_start().strip_prefix("at ") {
                kept.extend(function.take().into_iter().chain([line]).filter(|_| is_ours(place)));
            } else {
                function = Some(line);
            }
        }
        kept.into_iter().cloned().collect()
    }

    /// Extracts `tests/sched.rs:12:5` from `thread 'name' (17) panicked at tests/sched.rs:12:5:`. A panic of
    /// insta has the place from `Source: tests/screens.rs:12`.
    fn place(&self) -> Option<&str> {
        let panicked = self.0.iter().find_map(|line| line.split_once(PANICKED))?.1.trim_end_matches(':');
        let compared = self.0.iter().find_map(|line| line.strip_prefix("Source: "));
        compared.filter(|_| !is_ours(panicked)).or(Some(panicked))
    }
}

/// The first line that tells why a test failed, and how many lines to show from there.
fn cause(lines: &[String]) -> (usize, usize) {
    let panicked = lines.iter().position(|line| line.contains(PANICKED)).unwrap_or(0);
    let difference = lines[..panicked].iter().position(|line| line == DIFFERENCE);
    difference.map_or((panicked, FROM_PANIC), |at| (at, FROM_DIFFERENCE))
}

/// Whether a line is `  3: function` or `  at file:line:column`.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.split_once(": ").map_or("", |(number, _)| number);
    line.starts_with("at ") || number.parse::<usize>().is_ok()
}

fn is_ours(place: &str) -> bool {
    !place.starts_with("/rustc/") && !place.contains("/registry/src/")
}

// === impl Account ===

impl Account {
    pub(crate) fn hear(&mut self, line: &str) {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            self.reports.push((name.to_owned(), Report::default()));
            self.open = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.open = false;
        } else if let Some((_, report)) = self.reports.last_mut().filter(|_| self.open && !line.is_empty()) {
            report.push(line.to_owned());
        }
    }

    /// Removes and returns the output of one test.
    pub(crate) fn take(&mut self, name: &str) -> Report {
        let at = self.reports.iter().position(|(other, _)| other == name);
        at.map(|at| self.reports.remove(at).1).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "test a ... FAILED

failures:

---- a stdout ----

thread 'a' (17) panicked at sysprobe-agent/tests/sched.rs:12:5:
left is not right
---- b stdout ----
only this

failures:
    a
    b

test result: FAILED. 0 passed; 2 failed";

    #[test]
    fn each_failed_test_has_its_own_output() {
        let mut account = Account::default();
        OUTPUT.lines().for_each(|line| account.hear(line));
        let a = account.take("a");
        assert_eq!(a.place(), Some("sysprobe-agent/tests/sched.rs:12:5"));
        assert_eq!(a.0.len(), 2);
        assert_eq!(account.take("b").0, ["only this"]);
        assert_eq!(account.take("c"), Report::default());
    }

    #[test]
    fn a_failed_snapshot_shows_its_difference_and_our_frames_only() {
        let diff = (1..40).map(|number| format!("{number:5} {number:5} │ same"));
        let panicked =
            "thread 't' (17) panicked at /root/.cargo/registry/src/index/insta-1.48.0/src/runtime.rs:735:13:
snapshot assertion for 'top' failed in line 40
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/abc/library/std/src/panicking.rs:689:5
   1: insta::runtime::assert_snapshot
             at /root/.cargo/registry/src/index/insta-1.48.0/src/runtime.rs:735:13
   2: screens::compare
             at ./tests/screens.rs:40:9
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.";
        let head =
            ["Snapshot: top", "Source: sysprobe-agent/tests/screens.rs:40", DIFFERENCE, "+new results"];
        let head = head.map(str::to_owned).into_iter();
        let report = Report::of(head.chain(diff).chain(panicked.lines().map(str::to_owned)));
        assert_eq!(report.place(), Some("sysprobe-agent/tests/screens.rs:40"));
        let shown = report.shown();
        assert_eq!(shown.len(), SHOWN_LINES);
        assert_eq!(shown[0], DIFFERENCE);
        assert_eq!(shown[FROM_DIFFERENCE - 1], "   22    22 │ same");
        assert_eq!(
            shown[SHOWN_LINES - 3..SHOWN_LINES - 1],
            ["   2: screens::compare", "             at ./tests/screens.rs:40:9"]
        );
        assert!(!shown.iter().any(|line| line.contains("/rustc/")), "{shown:?}");
    }

    #[test]
    fn of_a_long_output_the_panic_and_the_end_are_shown() {
        let mut said: Vec<String> = (0..10).map(|number| format!("before {number}")).collect();
        said.push("thread 't' (17) panicked at tests/a.rs:1:2:".to_owned());
        said.extend((0..100).map(|number| format!("log {number}")));
        let report = Report::of(said);
        let failure = Failure { test: "t".to_owned(), report, alone: "cargo test t".to_owned() };
        let lines = failure.lines();
        assert_eq!(lines.len(), SHOWN_LINES + 2);
        assert!(lines[0].ends_with("(tests/a.rs:1:2)"), "{lines:?}");
        assert!(lines[1].contains("panicked at") && lines[lines.len() - 2].ends_with("log 99"), "{lines:?}");
        assert!(lines.iter().any(|line| line.trim() == "(82 lines are left out)"), "{lines:?}");
    }
}
