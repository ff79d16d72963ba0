//! Compares new counts with the stored ones. No side effects.

use std::fmt;

use super::golden::{Kernel, Row};

/// The percentage by which a program may become dearer: the next compiler version may need a few more
/// instructions.
const TOLERANCE: u64 = 10;

/// A difference that is worth reporting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The program or round trip, with attach mode and kernel.
    what: String,
    news: News,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    Dearer {
        was: u64,
        is: u64,
    },
    Cheaper {
        was: u64,
        is: u64,
    },
    /// There is no stored count to compare it with.
    New,
    /// It had a count before, but has none now.
    Lost {
        reason: String,
    },
    /// It is no longer in the table of probes.
    Gone,
    OtherRelease {
        was: String,
        is: String,
    },
}

/// The differences on one kernel.
pub(super) fn kernels(known: &Kernel, new: &Kernel) -> Vec<Finding> {
    let mut findings = Vec::new();
    if known.release != new.release {
        let news = News::OtherRelease { was: known.release.clone(), is: new.release.clone() };
        findings.push(Finding { what: format!("Kernel {}", new.series), news });
    }
    let mut find = |what: String, news: Option<News>| {
        findings.extend(news.map(|news| Finding { what: format!("{what} on {}", new.series), news }));
    };
    for row in &new.programs {
        let was = known.row(&row.mode, &row.program);
        find(format!("`{}` ({})", row.program, row.mode), of_program(was, row));
    }
    for trip in &new.round_trips {
        let news =
            known.round_trip(&trip.mode).map_or(Some(News::New), |was| of_counts(was.product, trip.product));
        find(format!("a round trip with all programs of {}", trip.mode), news);
    }
    for request in &new.requests {
        let news = known.request(&request.with);
        let news = news.map_or(Some(News::New), |was| of_counts(was.added, request.added));
        find(format!("{} with all programs ({})", request.call, request.with), news);
    }
    // Requests with a single attach mode are counted only together with the calls.
    let default = known.requests.iter().filter(|request| request.with.starts_with("default"));
    for request in default.filter(|request| new.request(&request.with).is_none()) {
        let news = News::Lost { reason: "is nginx installed?".to_owned() };
        find(format!("{} with all programs ({})", request.call, request.with), Some(news));
    }
    for row in known.programs.iter().filter(|row| new.row(&row.mode, &row.program).is_none()) {
        let refusal = new.refusal(&row.domain, &row.mode);
        let news = refusal.map_or(News::Gone, |reason| News::Lost { reason: reason.to_owned() });
        find(format!("`{}` ({})", row.program, row.mode), Some(news));
    }
    findings
}

fn of_program(was: Option<&Row>, is: &Row) -> Option<News> {
    let Some(was) = was else { return Some(News::New) };
    match (was.instructions, is.instructions) {
        // A count that varies between boots is compared with the highest stored one.
        (Some(least), Some(is)) => match (of_counts(least, is), was.most) {
            (Some(News::Dearer { .. }), Some(most)) => {
                of_counts(most, is).filter(|news| matches!(news, News::Dearer { .. }))
            }
            (news, _) => news,
        },
        (Some(_), None) => Some(News::Lost { reason: is.reason.clone().unwrap_or_default() }),
        (None, Some(_)) => Some(News::New),
        (None, None) => None,
    }
}

fn of_counts(was: u64, is: u64) -> Option<News> {
    if is * 100 > was * (100 + TOLERANCE) {
        Some(News::Dearer { was, is })
    } else if is * 100 < was * (100 - TOLERANCE) {
        Some(News::Cheaper { was, is })
    } else {
        None
    }
}

/// The programs that became dearer, one row each, the largest increase first.
pub(super) fn dearer(findings: &[Finding]) -> Vec<String> {
    let mut rows: Vec<_> = findings.iter().filter_map(Finding::as_dearer).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    rows.sort_by_key(|(_, was, is)| std::cmp::Reverse(is * 1000 / (*was).max(1)));
    let width = rows.iter().map(|(what, ..)| what.chars().count()).max().unwrap_or(0);
    let heading = format!("{:width$} {:>8} {:>8} {:>7}", "instructions of", "were", "are", "more");
    let row = |(what, was, is): (&str, u64, u64)| {
        format!("{what:width$} {was:>8} {is:>8} {:>+6.0}%", percent(was, is))
    };
    std::iter::once(heading).chain(rows.into_iter().map(row)).collect()
}

fn percent(was: u64, is: u64) -> f64 {
    (is as f64 / was as f64 - 1.0) * 100.0
}

// === impl Finding ===

impl Finding {
    pub(super) const fn is_fault(&self) -> bool {
        matches!(self.news, News::Dearer { .. } | News::New | News::Lost { .. })
    }

    const fn as_dearer(&self) -> Option<(&str, u64, u64)> {
        match self.news {
            News::Dearer { was, is } => Some((self.what.as_str(), was, is)),
            _ => None,
        }
    }

    /// Whether another boot may give a different result.
    pub(super) const fn may_be_chance(&self) -> bool {
        matches!(self.news, News::Dearer { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match &self.news {
            News::Dearer { was, is } => {
                write!(
                    f,
                    "DEARER: {what} takes {is} instructions instead of {was} ({:+.0} %).",
                    percent(*was, *is)
                )
            }
            News::Cheaper { was, is } => write!(
                f,
                "Cheaper: {what} takes {is} instructions instead of {was} ({:+.0} %). `cargo xtask cost` \
                 keeps it so.",
                percent(*was, *is)
            ),
            News::New => write!(
                f,
                "NEW: {what} has no count in docs/overhead.json: run `cargo xtask cost --accept KERNEL`."
            ),
            News::Lost { reason } => write!(f, "LOST: {what} can no longer be measured: {reason}."),
            News::Gone => write!(f, "Gone: {what}. `cargo xtask cost` forgets it."),
            News::OtherRelease { was, is } => {
                write!(f, "{what} is {is} here; the counts are from {was} and may differ a little.")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::golden::Trip;
    use super::super::report::Refused;
    use super::*;

    fn row(program: &str, instructions: Option<u64>) -> Row {
        let reason = instructions.is_none().then(|| "it did not run".to_owned());
        let [domain, mode, hook] = ["sched", "tp_btf", "sched_switch"].map(str::to_owned);
        Row {
            domain,
            mode,
            program: program.to_owned(),
            hook,
            instructions,
            most: None,
            verified: None,
            reason,
        }
    }

    fn kernel(programs: Vec<Row>) -> Kernel {
        Kernel { series: "6.12".to_owned(), release: "6.12.1".to_owned(), programs, ..Kernel::default() }
    }

    /// Whether the comparison fails, and its messages.
    fn compare(known: Vec<Row>, new: Vec<Row>) -> (bool, Vec<String>) {
        let findings = kernels(&kernel(known), &kernel(new));
        (findings.iter().any(Finding::is_fault), findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn up_to_a_tenth_more_is_accepted() {
        assert_eq!(compare(vec![row("a", Some(100))], vec![row("a", Some(110))]), (false, vec![]));
        let (fails, said) = compare(vec![row("a", Some(100))], vec![row("a", Some(111))]);
        assert!(fails);
        assert_eq!(said, ["DEARER: `a` (tp_btf) on 6.12 takes 111 instructions instead of 100 (+11 %)."]);
    }

    #[test]
    fn what_is_dearer_is_a_table_the_dearest_first() {
        let known = kernel(vec![row("a", Some(100)), row("long_name", Some(100))]);
        let findings = kernels(&known, &kernel(vec![row("a", Some(120)), row("long_name", Some(200))]));
        let expected = [
            "instructions of                  were      are    more",
            "`long_name` (tp_btf) on 6.12      100      200   +100%",
            "`a` (tp_btf) on 6.12              100      120    +20%",
        ];
        assert_eq!(dearer(&findings), expected);
        assert!(dearer(&[]).is_empty());
    }

    #[test]
    fn what_wavers_is_compared_with_the_most_that_is_known() {
        let known = || vec![Row { most: Some(200), ..row("a", Some(100)) }];
        for count in [100, 150, 220] {
            assert_eq!(compare(known(), vec![row("a", Some(count))]), (false, vec![]), "{count}");
        }
        let (fails, said) = compare(known(), vec![row("a", Some(221))]);
        assert!(fails && said[0].contains("instead of 200"), "{said:?}");
        assert!(!compare(known(), vec![row("a", Some(80))]).0);
    }

    #[test]
    fn what_has_become_cheaper_is_told_and_accepted() {
        let (fails, said) = compare(vec![row("a", Some(100))], vec![row("a", Some(80))]);
        assert!(!fails && said[0].starts_with("Cheaper: `a`"), "{said:?}");
    }

    #[test]
    fn a_program_that_nobody_has_counted_fails_and_says_what_to_do() {
        for known in [vec![], vec![row("a", None)]] {
            let (fails, said) = compare(known, vec![row("a", Some(1))]);
            assert!(fails && said[0].contains("run `cargo xtask cost --accept KERNEL`"), "{said:?}");
        }
        assert_eq!(compare(vec![row("a", None)], vec![row("a", None)]), (false, vec![]));
    }

    #[test]
    fn a_program_that_runs_no_more_fails() {
        let (fails, said) = compare(vec![row("a", Some(1))], vec![row("a", None)]);
        assert!(fails && said[0].contains("it did not run"), "{said:?}");
    }

    #[test]
    fn an_attach_mode_that_is_refused_fails_but_one_that_was_removed_does_not() {
        let known = kernel(vec![row("a", Some(1))]);
        let mut new = kernel(vec![]);
        assert!(!kernels(&known, &new)[0].is_fault());
        let [domain, mode, reason] = ["sched", "tp_btf", "the verifier says no"].map(str::to_owned);
        new.refused.push(Refused { domain, mode, reason });
        let findings = kernels(&known, &new);
        assert!(findings[0].is_fault() && findings[0].to_string().contains("the verifier says no"));
    }

    #[test]
    fn round_trips_are_compared_too() {
        let with = |product| {
            let round_trips = vec![Trip { mode: "kprobe".to_owned(), empty: 1, product }];
            Kernel { round_trips, ..kernel(vec![]) }
        };
        assert_eq!(kernels(&with(1000), &with(1100)), []);
        let findings = kernels(&with(1000), &with(1200));
        assert!(findings[0].is_fault() && findings[0].may_be_chance());
        assert!(
            findings[0].to_string().contains("all programs of kprobe on 6.12 takes 1200"),
            "{}",
            findings[0]
        );
    }

    #[test]
    fn another_release_is_told() {
        let mut new = kernel(vec![]);
        new.release = "6.12.2".to_owned();
        let findings = kernels(&kernel(vec![]), &new);
        assert!(!findings[0].is_fault());
        assert!(findings[0].to_string().starts_with("Kernel 6.12 is 6.12.2 here"), "{}", findings[0]);
    }
}
