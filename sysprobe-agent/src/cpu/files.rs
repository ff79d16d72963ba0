//! Small files of one directory after another, through one path and one buffer: a scrape reads thousands of them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cgroup::is_gone;
use crate::cpu::parse::ParseError;

/// The kernel's files have a few hundred bytes; what is longer is none of them.
const LENGTH_MAX: u64 = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct Files {
    /// The directory, and during a read the file.
    path: PathBuf,
    text: Vec<u8>,
}

impl Files {
    /// From here on, files are those of the directory `relative` below `root`.
    pub(super) fn enter(&mut self, root: &Path, relative: &str) {
        self.path.clear();
        self.path.push(root);
        self.path.push(relative);
    }

    /// `None` if there is no such file, or the cgroup was removed under it.
    pub(super) fn read<T>(
        &mut self,
        file: &'static str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>> {
        self.path.push(file);
        let opened = File::open(&self.path);
        self.path.pop();
        self.text.clear();
        match opened.and_then(|opened| opened.take(LENGTH_MAX).read_to_end(&mut self.text)) {
            Ok(_) => {}
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading `{file}`")),
        }
        let Ok(text) = str::from_utf8(&self.text) else { bail!("`{file}` is not text") };
        Ok(Some(parse(text)?))
    }

    pub(super) fn directory_exists(&self) -> bool {
        self.path.is_dir()
    }
}
