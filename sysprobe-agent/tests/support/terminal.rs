//! A real terminal: a tmux of the test's own, whose screen can be read and whose keys can be pressed.

use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{command, until};

/// A program that has drawn nothing for this long is done, even on a busy machine.
const SETTLED: Duration = Duration::from_secs(10);

/// The terminal; it ends with everything in it when it is dropped.
#[derive(Debug)]
pub(crate) struct Terminal {
    directory: TempDir,
}

impl Terminal {
    /// Runs the binary with these arguments on a screen of this size. After its end, the screen shows its
    /// exit code.
    pub(crate) fn running((width, height): (u16, u16), arguments: &[&str]) -> Self {
        let terminal = Self { directory: tempfile::tempdir().expect("a directory") };
        let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        let program = command::program();
        let line = format!("{} {}; echo \"exit code $?\"; read -r _", program.display(), words.join(" "));
        let (width, height) = (width.to_string(), height.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &line]);
        // The status line would take a line of the screen.
        terminal.tmux(&["set-option", "-g", "status", "off"]);
        terminal
    }

    /// Presses a key by its tmux name (`Enter`, `Tab`, `Escape`), or types a text.
    pub(crate) fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub(crate) fn resize(&self, (width, height): (u16, u16)) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// The lines of the screen, without trailing blanks.
    pub(crate) fn screen(&self) -> Vec<String> {
        self.tmux(&["capture-pane", "-p"]).lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits until the screen meets the condition; returns it.
    pub(crate) fn shows(&self, what: &str, is_it: impl Fn(&[String]) -> bool) -> Vec<String> {
        until(what, || Some(self.screen()).filter(|screen| is_it(screen)))
    }

    /// Waits until the screen meets the condition, or until nothing has changed for so long that it never
    /// will. Returns the last screen.
    pub(crate) fn settles(&self, is_it: impl Fn(&[String]) -> bool) -> Vec<String> {
        let (mut last, mut since) = (Vec::new(), Instant::now());
        until("the screen settles", || {
            let screen = self.screen();
            if screen != last {
                (last, since) = (screen, Instant::now());
            }
            (is_it(&last) || since.elapsed() > SETTLED).then(|| last.clone())
        })
    }

    /// The screen with its escape codes for colours and styles.
    pub(crate) fn styled(&self) -> String {
        self.tmux(&["capture-pane", "-e", "-p"])
    }

    /// Waits until a line begins with this text.
    pub(crate) fn has_line(&self, start: &str) -> Vec<String> {
        let screen = format!("a line that begins with `{start}`");
        self.shows(&screen, |screen| screen.iter().any(|line| line.starts_with(start)))
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.directory.path().join("tmux")).args(arguments);
        // The test may itself run inside tmux.
        tmux.env_remove("TMUX").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
        let output = tmux.output().expect("tmux can be started");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
