//! Small files of one cgroup after another, through one path and one buffer: a scrape reads thousands of
//! them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::is_gone;
use super::parse::ParseError;

/// The kernel's files have a few hundred bytes, statistics some thousands; what is longer is none of them.
const LENGTH_MAX: usize = 16 * 1024;

/// How a cgroup lies in the tree, as far as it decides what is read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A workload of its own: nothing below it has series.
    Workload,
    /// It holds the containers of a pod.
    Pod,
    /// It holds others together, so its totals repeat theirs.
    Inner,
}

#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The directory, and during a read the file.
    path: PathBuf,
    text: Vec<u8>,
}

impl Files {
    /// From here on, files are those of the directory `relative` below `root`.
    pub(crate) fn enter(&mut self, root: &Path, relative: &str) {
        self.path.clear();
        self.path.push(root);
        self.path.push(relative);
    }

    /// `None` if there is no such file, the cgroup was removed under it, or the kernel does not keep what it
    /// would say.
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

    /// A cgroup's file is one record, which a read with room for it returns whole: a second one would only
    /// say that this was all.
    fn read_once(&mut self, file: &mut File) -> io::Result<usize> {
        self.text.resize(LENGTH_MAX, 0);
        file.read(&mut self.text)
    }

    pub(crate) fn directory_exists(&self) -> bool {
        self.path.is_dir()
    }
}

/// The path of a cgroup without its leading slashes, which would make it replace the root that it is joined
/// to.
pub(crate) fn relative(cgroup: &str) -> Result<&str> {
    let relative = cgroup.trim_start_matches('/');
    let inside =
        Path::new(relative).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    ensure!(cgroup.starts_with('/') && inside, "`{}` is not a cgroup path", cgroup.escape_debug());
    Ok(relative)
}

/// How the kernel answers for pressure that it was started without.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EOPNOTSUPP)
}
