//! The types of a kernel (BTF), opened and searched by name. `layout` and `targets` look things up in them.

mod layout;
mod targets;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

use btf_rs::{Backend, Btf, Type};
use regex::Regex;
use tracing::error;

pub use layout::Layout;

/// Types that can be searched.
pub(super) struct Types(Btf);

#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    #[error(
        "{path} does not exist: this kernel provides no BTF (CONFIG_DEBUG_INFO_BTF); give a file with --btf"
    )]
    NoneInKernel { path: PathBuf },
    #[error("the file given with --btf does not exist: {path}")]
    Missing { path: PathBuf },
    #[error("{path} is not readable as BTF: {reason}")]
    Unreadable { path: PathBuf, reason: String },
}

impl BtfError {
    fn without_file(path: PathBuf, error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound if path == Path::new(super::KERNEL_BTF) => Self::NoneInKernel { path },
            ErrorKind::NotFound => Self::Missing { path },
            _ => Self::Unreadable { path, reason: error.to_string() },
        }
    }
}

impl Types {
    pub(super) fn open(path: &Path) -> Result<Self, BtfError> {
        if let Err(error) = path.metadata() {
            return Err(BtfError::without_file(path.to_owned(), &error));
        }
        map(path)
            .map(Self)
            .map_err(|error| BtfError::Unreadable { path: path.to_owned(), reason: error.to_string() })
    }

    /// The kernel's drop reasons, by number.
    pub(super) fn drop_reasons(&self) -> BTreeMap<u32, String> {
        let types = self.named(["skb_drop_reason"]);
        let members = types.values().flatten().flat_map(|ty| match ty {
            Type::Enum(values) => values.members.as_slice(),
            _ => &[],
        });
        let named = members.filter_map(|member| {
            let name = self.0.resolve_name(member).ok()?;
            Some((member.val(), name.strip_prefix("SKB_DROP_REASON_")?.to_lowercase()))
        });
        named.collect()
    }

    /// All types with these names, by name. One pass over the names of all types, about a hundred thousand.
    fn named<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, Vec<Type>> {
        let names: Vec<String> = names.into_iter().map(regex::escape).collect();
        let mut found = BTreeMap::<String, Vec<Type>>::new();
        match self.matching(&format!("^(?:{})$", names.join("|"))) {
            Ok(types) => types.for_each(|(name, ty)| found.entry(name).or_default().push(ty)),
            Err(error) => error!(%error, "The kernel's BTF cannot be searched."),
        }
        found
    }

    fn matching(
        &self,
        pattern: &str,
    ) -> Result<impl Iterator<Item = (String, Type)>, Box<dyn std::error::Error>> {
        let ids = self.0.resolve_ids_by_regex(&Regex::new(pattern)?)?;
        Ok(ids.into_iter().filter_map(|id| {
            let ty = self.0.resolve_type_by_id(id).ok()?;
            Some((self.0.resolve_name(ty.as_btf_type()?).ok()?, ty))
        }))
    }
}

/// Maps the file and searches it, at a hundredth of the cost of the crate's default, which builds an index.
/// The kernel's own file can be mapped since 6.16; before, a copy in memory can.
fn map(path: &Path) -> Result<Btf, Box<dyn std::error::Error>> {
    if let Ok(btf) = Btf::from_file_with_backend(path, Backend::Mmap) {
        return Ok(btf);
    }
    // SAFETY: the name is a string with a terminator; the result is checked.
    let descriptor = unsafe { libc::memfd_create(c"btf".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: a new descriptor without another owner.
    let mut copy = unsafe { File::from_raw_fd(descriptor) };
    std::io::copy(&mut File::open(path)?, &mut copy)?;
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    Ok(Btf::from_file_with_backend(name, Backend::Mmap)?)
}
