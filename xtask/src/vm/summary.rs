//! The table at the end: a row for each test, a column for each kernel.

use super::libtest::Verdict;

/// One cell of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) kernel: &'static str,
    pub(super) test: String,
    pub(super) verdict: Verdict,
}

/// The table as lines. A dash marks a test that a kernel's run did not reach.
pub(super) fn table(kernels: &[&str], outcomes: &[Outcome]) -> Vec<String> {
    let mut tests: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !tests.contains(&&*outcome.test) {
            tests.push(&outcome.test);
        }
    }
    let width = tests.iter().map(|test| test.chars().count()).max().unwrap_or(0);
    let row = |test: &str, cells: Vec<&str>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>6}")).collect();
        format!("{test:width$}{}", cells.concat())
    };
    let mut lines = vec![row("", kernels.to_vec())];
    for test in tests {
        lines.push(row(test, kernels.iter().map(|kernel| cell(kernel, test, outcomes)).collect()));
    }
    lines
}

pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Failed => "FAIL",
        Verdict::Skipped => "skip",
    }
}

fn cell(kernel: &str, test: &str, outcomes: &[Outcome]) -> &'static str {
    let found = outcomes.iter().find(|outcome| outcome.kernel == kernel && outcome.test == test);
    found.map_or("-", |outcome| word(outcome.verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_tests_and_columns_are_kernels() {
        let outcome = |kernel, test: &str, verdict| Outcome { kernel, test: test.to_owned(), verdict };
        let outcomes = [
            outcome("5.10", "sched::a", Verdict::Skipped),
            outcome("7.3", "sched::a", Verdict::Ok),
            outcome("7.3", "sched::long_name", Verdict::Failed),
        ];
        let expected =
            ["                  5.10   7.3", "sched::a          skip    ok", "sched::long_name     -  FAIL"];
        assert_eq!(table(&["5.10", "7.3"], &outcomes), expected);
    }
}
