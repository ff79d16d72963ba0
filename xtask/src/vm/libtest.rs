//! Parses the output of a Rust test binary line by line, while it runs.

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Failed,
    Skipped,
}

/// What a line of the output means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Verdict(String, Verdict),
    /// Part of the output of failed tests, which follows the last test.
    Detail(String),
    Nothing,
}

/// The state between lines.
#[derive(Debug, Default)]
pub(super) struct Listener {
    /// The test that is running. Tests run one after the other.
    pending: Option<String>,
    accounting: bool,
}

impl Listener {
    pub(super) fn hear(&mut self, line: &str) -> Heard {
        if let Some((name, rest)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            let name = name.split(" - ").next().unwrap_or(name).to_owned();
            return self.judge(name, rest);
        }
        if let Some(name) = self.pending.take() {
            // The verdict follows anything that the test's own processes have printed on the line.
            return self.judge(name, line);
        }
        if line.starts_with("test result: ") {
            self.accounting = false;
        } else if line == "failures:" {
            self.accounting = true;
        } else if self.accounting && !line.is_empty() {
            return Heard::Detail(line.to_owned());
        }
        Heard::Nothing
    }

    /// The test that was still running when the output ended.
    pub(super) fn unfinished(&mut self) -> Option<String> {
        self.pending.take()
    }

    fn judge(&mut self, name: String, text: &str) -> Heard {
        if let Some(verdict) = verdict(text) {
            return Heard::Verdict(name, verdict);
        }
        self.pending = Some(name);
        Heard::Nothing
    }
}

fn verdict(text: &str) -> Option<Verdict> {
    match text.trim_end() {
        "ok" => Some(Verdict::Ok),
        "FAILED" => Some(Verdict::Failed),
        text if text.starts_with("ignored") => Some(Verdict::Skipped),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(output: &str) -> Vec<(String, Verdict)> {
        let mut listener = Listener::default();
        let heard = output.lines().map(|line| listener.hear(line));
        let mut found = Vec::new();
        for heard in heard {
            if let Heard::Verdict(name, verdict) = heard {
                found.push((name, verdict));
            }
        }
        found
    }

    #[test]
    fn each_test_has_one_verdict() {
        let output = "
running 4 tests
test a_works ... ok
test b::works - should panic ... ok
test c_is_slow ... ignored, takes an hour
test d_fails ... FAILED

failures:
";
        let expected = [
            ("a_works", Verdict::Ok),
            ("b::works", Verdict::Ok),
            ("c_is_slow", Verdict::Skipped),
            ("d_fails", Verdict::Failed),
        ];
        assert_eq!(verdicts(output), expected.map(|(name, verdict)| (name.to_owned(), verdict)));
    }

    #[test]
    fn what_a_tests_processes_print_may_stand_before_its_verdict() {
        let output = "test a ... figure: 12\nfigure: 13\nok\ntest b ... FAILED\n";
        assert_eq!(verdicts(output), [("a".to_owned(), Verdict::Ok), ("b".to_owned(), Verdict::Failed)]);
    }

    #[test]
    fn the_account_of_failures_is_passed_on() {
        let mut listener = Listener::default();
        let output =
            "failures:\n\n---- d stdout ----\nassertion failed\n\ntest result: FAILED. 0 passed\nother";
        let heard: Vec<Heard> = output.lines().map(|line| listener.hear(line)).collect();
        let details: Vec<&Heard> = heard.iter().filter(|heard| **heard != Heard::Nothing).collect();
        assert_eq!(
            details,
            [&Heard::Detail("---- d stdout ----".to_owned()), &Heard::Detail("assertion failed".to_owned())]
        );
    }

    #[test]
    fn a_test_that_never_ends_is_known() {
        let mut listener = Listener::default();
        assert_eq!(listener.hear("test a ... "), Heard::Nothing);
        assert_eq!(listener.unfinished().as_deref(), Some("a"));
        assert_eq!(listener.unfinished(), None);
    }
}
