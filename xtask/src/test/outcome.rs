//! Parses the output of one test program, both streams in one: how many tests passed, and what the failed
//! ones printed. No side effects.

use crate::results::{Account, Failure, Report, Results};

/// Parses one program's output. `source` names the program; `selection` holds the cargo arguments that run it
/// alone.
pub(super) fn results(source: &str, selection: &str, lines: &[String], succeeded: bool) -> Results {
    let mut account = Account::default();
    for line in lines {
        account.hear(line);
    }
    let failures = failed(lines).map(|name| Failure {
        test: format!("{source}: {name}"),
        report: account.take(name),
        alone: format!("cargo test {selection} -- --exact {name} --nocapture"),
    });
    let mut results = Results { failures: failures.collect(), ..Results::default() };
    for counts in lines.iter().filter_map(|line| line.strip_prefix("test result: ")) {
        add_counts(&mut results, counts);
    }
    let left_out = lines.iter().filter_map(|line| line.strip_prefix(LEFT_OUT));
    results.left_out.extend(left_out.map(str::to_owned));
    if results.failures.is_empty() && !succeeded {
        // The program was killed or did not reach its first test. The last lines may say why.
        let said = lines.iter().rev().take(LAST_LINES).rev().cloned();
        let report =
            Report::of(["the test program did not get to its end".to_owned()].into_iter().chain(said));
        let alone = format!("cargo test {selection}");
        results.failures.push(Failure { test: source.to_owned(), report, alone });
    }
    results
}

/// The prefix of the line in which a test says what it cannot check here, and why.
const LEFT_OUT: &str = "left out: ";

/// How many lines are shown of a program that broke off.
const LAST_LINES: usize = 20;

/// The names of the tests that failed: the list between the last `failures:` and the result.
fn failed(lines: &[String]) -> impl Iterator<Item = &str> {
    let mut lists = lines.iter().enumerate().filter(|(_, line)| *line == "failures:");
    let names = lists.next_back().map_or(&[][..], |(at, _)| &lines[at + 1..]);
    names.iter().map_while(|line| line.strip_prefix("    "))
}

/// Adds counts from `ok. 3 passed; 0 failed; 1 ignored; ...`.
fn add_counts(results: &mut Results, counts: &str) {
    let counts = counts.split_once(". ").map_or("", |(_, counts)| counts);
    for count in counts.split("; ") {
        match count.split_once(' ').map(|(number, what)| (number.parse().unwrap_or(0), what)) {
            Some((number, "passed")) => results.passed += number,
            Some((number, "ignored")) => results.ignored += number,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str, succeeded: bool) -> Results {
        let lines: Vec<String> = output.lines().map(str::to_owned).collect();
        results("sysprobe-agent/tests/sched.rs", "-p sysprobe-agent --test sched", &lines, succeeded)
    }

    #[test]
    fn counts_are_those_of_the_last_line() {
        let output = "left out: a slow device: this kernel has no null_blk\ntest sched::ok ... ok\n\
             test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s";
        let left_out = "a slow device: this kernel has no null_blk".to_owned();
        let expected = Results { passed: 3, ignored: 1, ..Results::without(left_out) };
        assert_eq!(read(output, true), expected);
    }

    #[test]
    fn a_failed_test_is_named_with_its_output_and_its_command() {
        let output = "running 2 tests
test a ... a child's line
FAILED
test b ... ok

failures:

---- a stdout ----

thread 'a' (17) panicked at sysprobe-agent/tests/sched.rs:12:5:
left is not right

failures:
    a

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        let results = read(output, false);
        assert_eq!(results.passed, 1);
        let [failure] = &results.failures[..] else { panic!("{results:?}") };
        assert_eq!(failure.test, "sysprobe-agent/tests/sched.rs: a");
        assert_eq!(failure.alone, "cargo test -p sysprobe-agent --test sched -- --exact a --nocapture");
        assert!(failure.lines()[0].ends_with("(sysprobe-agent/tests/sched.rs:12:5)"), "{failure:?}");
    }

    #[test]
    fn a_program_that_was_killed_is_a_failure() {
        let results = read("running 2 tests\nno memory", false);
        let [failure] = &results.failures[..] else { panic!("{results:?}") };
        assert_eq!(failure.test, "sysprobe-agent/tests/sched.rs");
        assert!(failure.lines().iter().any(|line| line.trim() == "no memory"), "{failure:?}");
    }
}
