//! What tests said, kept for the end of `cargo xtask ci`: how many passed, and of each that failed its place,
//! its own output and the command that runs it alone.
//!
//! [`Account`] reads what libtest prints; who runs the tests knows where they are and how to run one alone.

use std::collections::VecDeque;

/// A failed test's output is shown up to this many lines, the last ones.
const SHOWN_LINES: usize = 30;

/// Sums over everything that ran.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    pub(crate) passed: u64,
    pub(crate) ignored: u64,
    pub(crate) failures: Vec<Failure>,
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
pub(crate) struct Report {
    pub(crate) lines: VecDeque<String>,
    /// How many lines came before those.
    omitted: usize,
}

/// Reads the part of libtest's output that follows the last test: the output of each that failed.
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
    }
}

// === impl Failure ===

impl Failure {
    /// What the end of the log says of it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let place = self.report.place().map(|place| format!(" ({place})")).unwrap_or_default();
        let mut lines = vec![format!("---- FAILED: {}{place}", self.test)];
        if self.report.omitted > 0 {
            lines.push(format!("    ({} lines above are left out)", self.report.omitted));
        }
        lines.extend(self.report.lines.iter().map(|line| format!("    {line}")));
        lines.push(format!("  alone: {}", self.alone));
        lines
    }
}

// === impl Report ===

impl Report {
    pub(crate) fn of(lines: impl IntoIterator<Item = String>) -> Self {
        let mut report = Self::default();
        lines.into_iter().for_each(|line| report.push(line));
        report
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == SHOWN_LINES {
            self.lines.pop_front();
            self.omitted += 1;
        }
        self.lines.push_back(line);
    }

    /// `tests/sched.rs:12:5` of `thread 'name' (17) panicked at tests/sched.rs:12:5:`.
    fn place(&self) -> Option<&str> {
        let panicked = self.lines.iter().find_map(|line| line.split_once(" panicked at "));
        panicked.map(|(_, place)| place.trim_end_matches(':'))
    }
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

    /// The output of one test.
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
        assert_eq!(a.lines.len(), 2);
        assert_eq!(account.take("b").lines, ["only this"]);
        assert_eq!(account.take("c"), Report::default());
    }

    #[test]
    fn a_long_output_is_cut_at_its_beginning() {
        let report = Report::of((0..100).map(|number| number.to_string()));
        let failure = Failure { test: "t".to_owned(), report, alone: "cargo test t".to_owned() };
        let lines = failure.lines();
        assert_eq!(lines.len(), SHOWN_LINES + 3);
        assert_eq!(lines[1].trim(), "(70 lines above are left out)");
        assert_eq!(lines[2].trim(), "70");
    }
}
