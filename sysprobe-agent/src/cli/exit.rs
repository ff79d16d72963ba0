//! Reports a command's failure, and gives each kind its exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::agent::client::NotAllowed;
use crate::config::ConfigError;
use crate::host::Privilege;

/// All of them, for the help.
pub(super) const CODES: &str =
    "Exit codes: 0 success, 1 failure, 2 invalid arguments, 77 missing privileges, 78 invalid configuration";

/// Reports an error, if any, on standard error, and returns the exit code.
pub(super) fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => complain(&error),
    }
}

/// The reader closed the pipe (`| head`), which is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind).or(of_json);
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

fn complain(error: &anyhow::Error) -> ExitCode {
    // When standard error is closed too, the message has nowhere to go.
    drop(writeln!(io::stderr(), "sysprobe: {error:#}"));
    if error.is::<ConfigError>() {
        ExitCode::from(78)
    } else if Privilege::were_missing(error) || error.is::<NotAllowed>() {
        ExitCode::from(77)
    } else {
        ExitCode::FAILURE
    }
}
