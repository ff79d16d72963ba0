//! A child process that does one thing each time it is told to.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use anyhow::{Result, bail};

/// Dropping it ends the child.
pub(crate) struct Forked {
    pid: i32,
    out: PipeWriter,
    back: PipeReader,
}

impl Forked {
    /// Forks. The child has its own copy of everything that `task` uses, but the kernel's objects are the
    /// same.
    pub(crate) fn start(mut task: impl FnMut() -> Result<()>) -> Result<Self> {
        let (mut orders, out) = io::pipe()?;
        let (back, mut answers) = io::pipe()?;
        // SAFETY: this program has one thread while it measures, so nothing is locked that the child could
        // need.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error().into());
        }
        if pid > 0 {
            return Ok(Self { pid, out, back });
        }
        drop((out, back));
        let mut byte = [0];
        while matches!(orders.read(&mut byte), Ok(1)) {
            byte[0] = u8::from(task().is_ok());
            if answers.write_all(&byte).is_err() {
                break;
            }
        }
        // SAFETY: ends the child without running what belongs to its parent.
        unsafe { libc::_exit(0) }
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    /// Has it done once. The child sleeps before and after.
    pub(crate) fn tell(&mut self) -> Result<()> {
        self.out.write_all(&[0])?;
        let mut answer = [0];
        self.back.read_exact(&mut answer)?;
        if answer[0] == 0 {
            bail!("a child could not do what it was told");
        }
        Ok(())
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        // SAFETY: a child of ours that has not been waited for; neither call touches memory of ours.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}
