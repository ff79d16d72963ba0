//! Member offsets and enumerators out of the kernel's BTF. Members of anonymous structs and unions count as their
//! parent's, as in C.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};

use btf_rs::{Backend, Btf, BtfType, Type};
use serde::Serialize;

/// Offsets by path (`task_struct.sched_info.run_delay`), values of enumerators likewise. What is missing is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layout(BTreeMap<String, u32>);

#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error(
        "{path} does not exist: this kernel shows no BTF (CONFIG_DEBUG_INFO_BTF); give a file with --btf"
    )]
    NoneInKernel { path: PathBuf },
    #[error("the file given with --btf does not exist: {path}")]
    Missing { path: PathBuf },
    #[error("{path} is not readable as BTF: {reason}")]
    Unreadable { path: PathBuf, reason: String },
}

impl LayoutError {
    fn without_file(path: PathBuf, error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound if path == Path::new(super::KERNEL_BTF) => Self::NoneInKernel { path },
            ErrorKind::NotFound => Self::Missing { path },
            _ => Self::Unreadable { path, reason: error.to_string() },
        }
    }
}

impl Layout {
    /// Looks up everything that `wanted` names.
    pub fn read<'a>(path: &Path, wanted: impl Iterator<Item = &'a str>) -> Result<Self, LayoutError> {
        if let Err(error) = path.metadata() {
            return Err(LayoutError::without_file(path.to_owned(), &error));
        }
        let btf = map(path)
            .map_err(|error| LayoutError::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
        let found = wanted.filter_map(|name| Some((name.to_owned(), look_up(&btf, name)?)));
        Ok(Self(found.collect()))
    }

    #[must_use]
    pub fn get(&self, path: &str) -> Option<u32> {
        self.0.get(path).copied()
    }

    /// For tests and recorded facts.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        Self(pairs.into_iter().map(|(path, value)| (path.to_owned(), value)).collect())
    }
}

/// Mapping the file and searching it costs a hundredth of the crate's default, which builds an index. The kernel's own file
/// can be mapped since 6.16; before, a copy in memory can.
fn map(path: &Path) -> Result<Btf, Box<dyn std::error::Error>> {
    if let Ok(btf) = Btf::from_file_with_backend(path, Backend::Mmap) {
        return Ok(btf);
    }
    // SAFETY: the name is a string with a terminator; the result is checked.
    let descriptor = unsafe { libc::memfd_create(c"btf".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: a new descriptor that nobody else owns.
    let mut copy = unsafe { File::from_raw_fd(descriptor) };
    std::io::copy(&mut File::open(path)?, &mut copy)?;
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    Ok(Btf::from_file_with_backend(name, Backend::Mmap)?)
}

fn look_up(btf: &Btf, path: &str) -> Option<u32> {
    let (type_name, members) = path.split_once('.')?;
    // The same name may stand for several types; the one that has the member is meant.
    btf.resolve_types_by_name(type_name).ok()?.into_iter().find_map(|ty| match ty {
        Type::Enum(values) => {
            let value = values.members.iter().find(|value| is_named(btf, *value, members))?;
            Some(value.val())
        }
        other => byte_offset(btf, &other, members),
    })
}

fn byte_offset(btf: &Btf, ty: &Type, members: &str) -> Option<u32> {
    let (name, rest) = members.split_once('.').map_or((members, None), |(name, rest)| (name, Some(rest)));
    let (bits, member_type) = find_member(btf, ty, name)?;
    match rest {
        None => Some(bits / 8),
        Some(rest) => Some(bits / 8 + byte_offset(btf, &member_type, rest)?),
    }
}

/// The bit offset and type of a member, found through anonymous members too.
fn find_member(btf: &Btf, ty: &Type, name: &str) -> Option<(u32, Type)> {
    let (Type::Struct(fields) | Type::Union(fields)) = ty else { return None };
    fields.members.iter().find_map(|member| {
        let member_type = strip_modifiers(btf, btf.resolve_chained_type(member).ok()?)?;
        if is_named(btf, member, name) {
            return Some((member.bit_offset(), member_type));
        }
        let anonymous = btf.resolve_name(member).is_ok_and(|name| name.is_empty());
        let (inner, found) = anonymous.then(|| find_member(btf, &member_type, name)).flatten()?;
        Some((member.bit_offset() + inner, found))
    })
}

fn strip_modifiers(btf: &Btf, mut ty: Type) -> Option<Type> {
    while let Type::Const(_) | Type::Volatile(_) | Type::Typedef(_) | Type::TypeTag(_) = ty {
        ty = btf.resolve_chained_type(ty.as_btf_type()?).ok()?;
    }
    Some(ty)
}

fn is_named(btf: &Btf, member: &dyn BtfType, name: &str) -> bool {
    btf.resolve_name(member).is_ok_and(|found| found == name)
}
