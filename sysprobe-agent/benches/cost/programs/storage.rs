//! Work on files in memory, by bare system calls: nothing but the call itself shall cost anything.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use anyhow::{Context, Result};

use super::acts::Act;
use super::cast::Cast;

/// A directory of memory; the root file system of a test kernel is an overlay, whose calls are twice as long.
pub(super) const MEMORY: &str = "/dev/shm";
const BYTES: usize = 100;

/// A directory of ours with one file.
struct Place {
    path: PathBuf,
    file: File,
}

impl Place {
    fn new(name: &str) -> Result<Self> {
        let path = Path::new(MEMORY).join(format!("sysprobe-cost-{}-{name}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path.join("file"))?;
        file.write_all_at(&[0; 4096], 0)?;
        Ok(Self { path, file })
    }

    fn name(&self, name: &str) -> Result<CString> {
        Ok(CString::new(self.path.join(name).as_os_str().as_bytes())?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What an action that failed has left goes with it.
        drop(fs::remove_dir_all(&self.path));
    }
}

pub(crate) struct Reader(Place);

impl Reader {
    pub(crate) fn new() -> Result<Self> {
        Place::new("read").map(Self)
    }

    pub(crate) fn read(&self) -> Result<()> {
        self.0.file.read_exact_at(&mut [0; BYTES], 0).context("reading")
    }
}

impl Act for Reader {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.read()
    }
}

pub(crate) struct Keeper {
    place: Place,
    directory: CString,
    one: CString,
    other: CString,
}

impl Keeper {
    pub(crate) fn new() -> Result<Self> {
        let place = Place::new("keep")?;
        let (directory, one, other) = (place.name("directory")?, place.name("file")?, place.name("other")?);
        Ok(Self { place, directory, one, other })
    }

    fn transfer(&self) -> io::Result<()> {
        let file = self.place.file.as_raw_fd();
        let mut bytes = [0_u8; BYTES];
        let vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: BYTES };
        let mut pipe = [0; 2];
        let (mut from, mut to) = (0, 2048);
        // SAFETY: descriptors, buffers and offsets that live until each call returns.
        unsafe {
            worked(libc::pwrite(file, bytes.as_ptr().cast(), BYTES, 0) as _)?;
            worked(libc::preadv(file, &raw const vector, 1, 0) as _)?;
            worked(libc::pwritev(file, &raw const vector, 1, 0) as _)?;
            worked(libc::fsync(file).into())?;
            worked(libc::fdatasync(file).into())?;
            worked(libc::sync_file_range(file, 0, 0, 0).into())?;
            worked(libc::lseek(file, 1024, libc::SEEK_SET))?;
            worked(libc::sendfile(file, file, &raw mut from, BYTES) as _)?;
            worked(libc::copy_file_range(file, &raw mut from, file, &raw mut to, BYTES, 0) as _)?;
            worked(libc::pipe(pipe.as_mut_ptr()).into())?;
            worked(libc::splice(file, &raw mut from, pipe[1], null_mut(), BYTES, 0) as _)?;
            worked(libc::close(pipe[0]).into())?;
            worked(libc::close(pipe[1]).into())
        }
    }

    fn rename(&self) -> io::Result<()> {
        let (directory, one, other) = (self.directory.as_ptr(), self.one.as_ptr(), self.other.as_ptr());
        // SAFETY: names that live.
        unsafe {
            let opened = libc::open(one, libc::O_RDONLY);
            worked(opened.into())?;
            worked(libc::close(opened).into())?;
            worked(libc::mkdir(directory, 0o700).into())?;
            worked(libc::rmdir(directory).into())?;
            worked(libc::mknod(other, libc::S_IFIFO | 0o600, 0).into())?;
            worked(libc::unlink(other).into())?;
            worked(libc::symlink(one, other).into())?;
            worked(libc::unlink(other).into())?;
            worked(libc::link(one, other).into())?;
            worked(libc::unlink(other).into())?;
            worked(libc::rename(one, other).into())?;
            worked(libc::rename(other, one).into())
        }
    }
}

impl Act for Keeper {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.transfer().context("moving bytes")?;
        self.rename().context("making and removing names")
    }
}

fn worked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
