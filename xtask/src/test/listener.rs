//! Reads what `cargo test` prints, both streams in one: which binary runs, how its tests end, and what those
//! that fail have to say. Pure.

use crate::results::{Account, Failure, Report, Results};

/// The state between lines.
#[derive(Debug, Default)]
pub(super) struct Listener {
    results: Results,
    /// The binary that runs, as cargo names it: `tests/sched.rs` or `unittests src/lib.rs`.
    binary: String,
    /// Its tests that have failed.
    failed: Vec<String>,
    account: Account,
}

impl Listener {
    pub(super) fn hear(&mut self, line: &str) {
        self.account.hear(line);
        if let Some(rest) = line.trim_start().strip_prefix("Running ") {
            rest.split(" (").next().unwrap_or(rest).clone_into(&mut self.binary);
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failed.push(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            self.add_counts(rest);
        } else if let Some(arguments) = rerun(line) {
            self.end_failed_binary(arguments);
        }
    }

    pub(super) fn into_results(self) -> Results {
        self.results
    }

    /// Adds `ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn add_counts(&mut self, rest: &str) {
        let counts = rest.split_once(". ").map_or("", |(_, counts)| counts);
        for count in counts.split("; ") {
            match count.split_once(' ').map(|(number, what)| (number.parse().unwrap_or(0), what)) {
                Some((number, "passed")) => self.results.passed += number,
                Some((number, "ignored")) => self.results.ignored += number,
                _ => {}
            }
        }
    }

    /// `arguments` are those by which cargo would run the binary again.
    fn end_failed_binary(&mut self, arguments: &str) {
        let failed = std::mem::take(&mut self.failed);
        if failed.is_empty() {
            // It was killed, or did not get to its first test.
            self.results.failures.push(Failure {
                test: self.binary.clone(),
                report: Report::of(["the test program did not get to its end".to_owned()]),
                alone: format!("cargo test {arguments}"),
            });
        }
        for name in failed {
            self.results.failures.push(Failure {
                test: format!("{}: {name}", self.binary),
                report: self.account.take(&name),
                alone: format!("cargo test {arguments} -- --exact {name} --nocapture"),
            });
        }
    }
}

/// `-p sysprobe-agent --test sched` of ``error: test failed, to rerun pass `-p sysprobe-agent --test sched` ``.
fn rerun(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("error: ")?;
    let failed = ["test failed, to rerun pass `", "doctest failed, to rerun pass `"];
    failed.into_iter().find_map(|failed| rest.strip_prefix(failed))?.strip_suffix('`')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(output: &str) -> Results {
        let mut listener = Listener::default();
        output.lines().for_each(|line| listener.hear(line));
        listener.into_results()
    }

    #[test]
    fn counts_add_up_over_binaries() {
        let results = hear(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\
             test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
             test sched::ok ... ok",
        );
        assert_eq!(results, Results { passed: 7, ignored: 1, failures: Vec::new() });
    }

    #[test]
    fn a_failed_test_is_named_with_its_output_and_its_command() {
        let results = hear(
            "     Running tests/sched.rs (target/debug/deps/sched-1)
running 2 tests
test a ... FAILED
test b ... ok

failures:

---- a stdout ----

thread 'a' (17) panicked at sysprobe-agent/tests/sched.rs:12:5:
left is not right

failures:
    a

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s

error: test failed, to rerun pass `-p sysprobe-agent --test sched`
     Running tests/tcp.rs (target/debug/deps/tcp-1)",
        );
        assert_eq!(results.passed, 1);
        let [failure] = &results.failures[..] else { panic!("{results:?}") };
        assert_eq!(failure.test, "tests/sched.rs: a");
        assert_eq!(failure.alone, "cargo test -p sysprobe-agent --test sched -- --exact a --nocapture");
        assert!(failure.lines()[0].ends_with("(sysprobe-agent/tests/sched.rs:12:5)"), "{failure:?}");
    }

    #[test]
    fn a_binary_that_was_killed_is_a_failure() {
        let results = hear(
            "     Running tests/sched.rs (target/debug/deps/sched-1)
running 2 tests
error: test failed, to rerun pass `-p sysprobe-agent --test sched`",
        );
        assert_eq!(results.failures.len(), 1);
        assert_eq!(results.failures[0].test, "tests/sched.rs");
    }
}
