//! Attaches one program to the first of its function's names that the kernel has, to a tracepoint, or to the
//! objects that an iterator walks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use aya::programs::links::FdLink;
use aya::programs::{BtfTracePoint, Iter, Program, ProgramError, RawTracePoint};
use tracing::warn;

use super::scan::Scan;
use super::syscall;
use crate::probe::{self, Hook};

/// How long a scan at start may take. A million open files take a quarter of a second, and ten seconds on an
/// emulated machine.
const SEED_LIMIT: Duration = Duration::from_secs(30);

/// Tries the names that a function has had across kernel versions, one after the other. An error for a name
/// that the kernel has takes precedence over "no such function" for the others.
pub(super) fn first_name<T>(
    row: &probe::Program,
    mut act: impl FnMut(&'static str) -> Result<T, ProgramError>,
) -> Result<T, ProgramError> {
    let mut tried = Err(ProgramError::IOError(io::Error::other("the table names no function")));
    for function in row.hooked() {
        let outcome = act(function);
        if outcome.is_ok() {
            return outcome;
        }
        if tried.as_ref().is_err_and(is_of_a_name) {
            tried = outcome;
        }
    }
    tried
}

/// Whether the error only says that the kernel has no function of that name.
fn is_of_a_name(error: &ProgramError) -> bool {
    match error {
        ProgramError::Btf(_) => true,
        ProgramError::IOError(error) => {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Other)
        }
        ProgramError::SyscallError(error) => error.io_error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Attaches a program to its tracepoint for as long as the link lives.
pub(super) fn to_tracepoint(program: &mut Program, row: &probe::Program) -> Result<FdLink, ProgramError> {
    if let Hook::RawTp(tracepoint) = row.hook {
        let program = <&mut RawTracePoint>::try_from(program)?;
        let link = program.attach(tracepoint)?;
        return Ok(program.take_link(link)?.into());
    }
    let program = <&mut BtfTracePoint>::try_from(program)?;
    let link = program.attach()?;
    Ok(program.take_link(link)?.into())
}

pub(super) fn scan_of(
    program: &mut Program,
    row: &probe::Program,
    links: impl FnOnce(BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>>,
) -> Result<Scan, ProgramError> {
    let program = <&mut Iter>::try_from(program)?.fd()?.as_fd();
    Ok(Scan::new(row, links(program).map_err(ProgramError::IOError)?))
}

pub(super) fn link_to_all(program: BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>> {
    Ok(vec![syscall::link_iterator(program)?])
}

/// Objects that the scan does not reach are picked up when they are used next.
pub(super) fn seed(scan: &Scan) -> io::Result<()> {
    if !scan.run(SEED_LIMIT)?.is_complete {
        warn!(
            program = scan.program(),
            "The initial scan did not finish in time; tasks and files that it missed stay unknown until they \
             are used."
        );
    }
    Ok(())
}
