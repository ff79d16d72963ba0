//! The binary under test as a command that ends by itself.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The exit code and the output of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The path of the binary under test. `cargo xtask` names the optimised one, because cargo's own takes twice
/// as long to start, and tests start hundreds.
pub(crate) fn program() -> OsString {
    env::var_os("SYSPROBE_TEST_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_sysprobe").into())
}

/// The real binary, without standard input.
pub(crate) fn sysprobe() -> Command {
    let mut command = Command::new(program());
    command.stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

pub(crate) fn run(command: &mut Command) -> Outcome {
    let output = command.output().expect("the command can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs the binary with these arguments.
pub(crate) fn run_with(arguments: &[&str]) -> Outcome {
    run(sysprobe().args(arguments))
}

/// From include/uapi/linux/capability.h.
pub(crate) const CAP_SYS_ADMIN: libc::c_ulong = 21;
pub(crate) const CAP_PERFMON: libc::c_ulong = 38;
pub(crate) const CAP_BPF: libc::c_ulong = 39;

/// Makes the command start without these capabilities, still as root.
pub(crate) fn without(command: &mut Command, capabilities: &'static [libc::c_ulong]) {
    let drop = move || {
        for capability in capabilities {
            // SAFETY: plain values.
            if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, *capability, 0, 0, 0) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(drop) };
}

impl Outcome {
    /// Whether a line of the output begins like this.
    pub(crate) fn has_line(&self, start: &str) -> bool {
        self.stdout.lines().any(|line| line.starts_with(start))
    }

    /// Asserts the exit code, and that standard error contains all of these texts.
    pub(crate) fn fails_with(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        for text in says {
            assert!(self.stderr.contains(text), "`{text}` is not in: {}", self.stderr);
        }
    }
}
