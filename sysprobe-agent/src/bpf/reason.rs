//! What the kernel and aya say, as reasons that a user can read.

use aya::programs::ProgramError;

/// The verifier's log ends with the reason; the rest would only hide it.
pub(super) fn refusal(error: &ProgramError) -> String {
    const LAST_LINES: usize = 8;
    let ProgramError::LoadError { io_error, verifier_log } = error else { return chain(error) };
    let log = verifier_log.to_string();
    let lines: Vec<_> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    if last.is_empty() {
        io_error.to_string()
    } else {
        format!("{io_error}; the verifier's last lines:\n{last}")
    }
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
