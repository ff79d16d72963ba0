//! Reads small files of one cgroup after another through one path and one buffer, because a scrape reads
//! thousands of them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::is_gone;
use super::parse::ParseError;

/// The kernel's files have a few hundred bytes, or a few thousand for statistics. A longer file is not one of
/// them.
const LENGTH_MAX: usize = 16 * 1024;

/// A cgroup's place in the tree, which decides what is read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A workload: cgroups below it have no series of their own.
    Workload,
    /// A pod's cgroup: the parent of its containers.
    Pod,
    /// A parent of other cgroups; its totals include theirs.
    Inner,
}

#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The directory; during a read, the file.
    path: PathBuf,
    text: Vec<u8>,
}

impl Files {
    /// Makes the directory `relative` below `root` the one that files are read from.
    pub(crate) fn enter(&mut self, root: &Path, relative: &str) {
        self.path.clear();
        self.path.push(root);
        self.path.push(relative);
    }

    /// `None` if there is no such file, the cgroup was removed meanwhile, or the kernel does not keep these
    /// numbers.
    pub(crate) fn read<T>(
        &mut self,
        file: &'static str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>> {
        self.path.push(file);
        let read = File::open(&self.path).and_then(|mut opened| self.read_once(&mut opened));
        self.path.pop();
        let length = match read {
            Ok(length) => length,
            Err(error) if is_gone(&error) || is_unsupported(&error) => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading `{file}`")),
        };
        let Ok(text) = str::from_utf8(&self.text[..length]) else { bail!("`{file}` is not text") };
        Ok(Some(parse(text)?))
    }

    /// The kernel writes a cgroup's file as one record, so a read with enough room returns all of it. A
    /// second read would only confirm the end.
    fn read_once(&mut self, file: &mut File) -> io::Result<usize> {
        self.text.resize(LENGTH_MAX, 0);
        file.read(&mut self.text)
    }

    pub(crate) fn directory_exists(&self) -> bool {
        self.path.is_dir()
    }
}

/// The path of a cgroup without its leading slashes: joined to a root, an absolute path would replace it.
pub(crate) fn relative(cgroup: &str) -> Result<&str> {
    let relative = cgroup.trim_start_matches('/');
    let inside =
        Path::new(relative).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    ensure!(cgroup.starts_with('/') && inside, "`{}` is not a cgroup path", cgroup.escape_debug());
    Ok(relative)
}

/// Whether the kernel answers this for a pressure file because it runs without pressure stall information.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EOPNOTSUPP)
}
