//! Reads lines of a file that another process is writing.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};

/// The file, and the line that is not complete yet.
pub(super) struct Tail {
    file: File,
    rest: Vec<u8>,
}

impl Tail {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        Ok(Self { file, rest: Vec::new() })
    }

    /// The lines completed since the last call, without the characters that a serial port adds.
    pub(super) fn lines(&mut self) -> Result<Vec<String>> {
        self.file.read_to_end(&mut self.rest)?;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
        let complete: Vec<u8> = self.rest.drain(..=end).collect();
        let text = String::from_utf8_lossy(&complete);
        Ok(text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect())
    }

    /// The last, incomplete line, for when the writer has gone.
    pub(super) fn rest(self) -> String {
        String::from_utf8_lossy(&self.rest).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_is_seen_once_and_only_when_it_is_complete() {
        let path = std::env::temp_dir().join(format!("xtask-tail-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let mut tail = Tail::open(&path).unwrap();
        file.write_all(b"one\r\ntw").unwrap();
        assert_eq!(tail.lines().unwrap(), ["one"]);
        assert!(tail.lines().unwrap().is_empty());
        file.write_all(b"o\nthree\nfou").unwrap();
        assert_eq!(tail.lines().unwrap(), ["two", "three"]);
        assert_eq!(tail.rest(), "fou");
        fs::remove_file(&path).unwrap();
    }
}
