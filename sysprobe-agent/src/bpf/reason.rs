//! Turns errors of the kernel and of aya into reasons that a user can read.

use aya::programs::ProgramError;

pub(super) fn refusal(error: &ProgramError) -> String {
    let ProgramError::LoadError { io_error, verifier_log } = error else { return chain(error) };
    let last = last_words(&verifier_log.to_string());
    if last.is_empty() {
        io_error.to_string()
    } else {
        format!("{io_error}; the verifier's last lines:\n{last}")
    }
}

/// Whether the verifier itself refused the program: it wrote why. Other refusals, such as those for want of a
/// privilege, come before it looks at the instructions.
pub(super) fn is_by_verifier(error: &ProgramError) -> bool {
    let ProgramError::LoadError { verifier_log, .. } = error else { return false };
    !last_words(&verifier_log.to_string()).is_empty()
}

/// The verifier's log ends with the reason, after up to thousands of lines of trace. Statistics follow the
/// reason, and newer kernels (7.3) explain it again at length, under a headline.
fn last_words(log: &str) -> String {
    const LAST_LINES: usize = 8;
    const FIGURES: [&str; 4] = ["verification time ", "stack depth ", "subprog ", "processed "];
    const HEADLINE: &str = "Verification failed: ";
    let end = log.find(HEADLINE).map_or(log.len(), |start| {
        let headline = log[start..].lines().next().unwrap_or_default();
        start + headline.len()
    });
    let is_told =
        |line: &&str| !line.trim().is_empty() && !FIGURES.iter().any(|figure| line.starts_with(figure));
    let lines: Vec<_> = log[..end].lines().filter(is_told).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// An error with its causes on one line.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let mut text = error.to_string();
    for cause in causes {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: &str = "0: R1=ctx() R10=fp0\n; fun() @ helpers.rs:330\n0: (bf) r0 = r9\nR9 !read_ok";

    #[test]
    fn figures_are_no_reason() {
        let log = format!(
            "{REASON}\nverification time 10483 usec\nstack depth 0+0\nprocessed 1 insns (limit 1000000) \
             max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0\n"
        );
        assert_eq!(last_words(&log), REASON);
    }

    #[test]
    fn an_explanation_is_left_to_those_who_have_the_source() {
        let log = format!(
            "{REASON}\n\nVerification failed: Register Type Safety: Unreadable register\n\nReason:\n  R9 has \
             never been initialized on this path\n\nSuggestion:\n  Initialize R9 on every path before this \
             instruction.\n\n\
             verification time 84926 usec\nstack depth max 0\nsubprog 1 (memset) static insns_self \
             0\nprocessed 1 insns"
        );
        let headline = "Verification failed: Register Type Safety: Unreadable register";
        assert_eq!(last_words(&log), format!("{REASON}\n{headline}"));
    }

    #[test]
    fn only_the_end_of_a_long_log_is_told() {
        let lines: Vec<_> = (0..100).map(|number| format!("{number}: (bf) r0 = r1")).collect();
        let told = last_words(&lines.join("\n"));
        assert_eq!((told.lines().count(), told.lines().last()), (8, Some("99: (bf) r0 = r1")));
    }

    #[test]
    fn a_silent_verifier_has_no_last_words() {
        assert_eq!(last_words(""), "");
        assert_eq!(last_words("processed 0 insns (limit 1000000)\n"), "");
    }
}
