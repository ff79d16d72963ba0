//! Loads one domain's object: creates its maps, sets its globals, has its programs verified.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use aya::programs::{BtfTracePoint, FEntry, FExit, Iter, KProbe, Program, ProgramError, RawTracePoint};
use aya::{Btf, EbpfLoader};
use tracing::warn;

use super::attach::first_name;
use super::cast::Cast;
use super::fold::fold;
use super::reason::{chain, is_by_verifier, refusal};
use super::shared::Shared;
use super::{Loaded, memlock};
use crate::host::KERNEL_BTF;
use crate::probe::{self, Hook, Object, ProgramSet};

/// Why a domain could not be started, as a sentence for the domain's reason.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the object cannot be read: {0}")]
    Unreadable(String),
    #[error("the kernel refuses the object: {0}")]
    Object(String),
    #[error("the object has no {kind} {name}")]
    Absent { kind: &'static str, name: &'static str },
    #[error("the kernel refuses {program}: {reason}")]
    Program { program: &'static str, reason: String },
    #[error("the map {map} cannot be mapped or filled: {reason}")]
    Map { map: &'static str, reason: String },
}

/// Loads domains. Meanwhile it holds the kernel's BTF, which takes several megabytes. Without BTF, the attach
/// modes that need no types still work.
pub struct Loader {
    btf: Result<Btf, String>,
    /// `None` unless the BTF is the running kernel's own: BTF ids differ between kernels.
    cast: Option<Cast>,
    objects: Option<PathBuf>,
    shared: Shared,
    /// Map sizes that override the requested ones. If set, nothing is attached.
    trial: Option<Vec<(&'static str, u32)>>,
}

/// What is to be loaded of an object, and how.
#[derive(Clone, Copy)]
struct Request<'a> {
    set: &'static ProgramSet,
    globals: &'a [(&'static str, u32)],
    table: Option<(&'static str, &'a [u8])>,
    map_sizes: &'a [(&'static str, u32)],
}

/// A program that the verifier refused.
struct Refusal {
    program: &'static str,
    reason: String,
}

impl Drop for Loader {
    /// The parsed BTF consists of tens of thousands of small allocations, which the allocator would not give
    /// back.
    fn drop(&mut self) {
        self.btf = Err(String::new());
        #[cfg(target_env = "gnu")]
        // SAFETY: it has no preconditions.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

impl Loader {
    #[must_use]
    pub fn new(btf: &Path) -> Self {
        memlock::raise();
        let is_own = btf == Path::new(KERNEL_BTF);
        let btf = Btf::parse_file(btf, aya::Endianness::default()).map_err(|error| chain(&error));
        let cast = btf.as_ref().ok().filter(|_| is_own).and_then(Cast::of);
        Self { btf, cast, objects: None, shared: Shared::default(), trial: None }
    }

    /// Reads the objects from `directory`, if given, instead of using the built-in ones.
    #[must_use]
    pub fn objects_from(mut self, directory: Option<&Path>) -> Self {
        self.objects = directory.map(Path::to_owned);
        self
    }

    /// Makes `attach` do nothing. Programs are verified as usual, and `sizes` overrides the requested map
    /// sizes.
    #[must_use]
    pub fn only_trying(mut self, sizes: Vec<(&'static str, u32)>) -> Self {
        self.trial = Some(sizes);
        self
    }

    /// Lets programs that are loaded after this call use a map, by its number.
    pub fn share(&self, number: u64, map: OwnedFd) {
        self.shared.add(number, map);
    }

    /// Removes all shared maps.
    pub fn share_nothing(&self) {
        self.shared.clear();
    }

    /// Whether a map is shared under this number.
    #[must_use]
    pub fn shares(&self, number: u64) -> bool {
        self.shared.has(number)
    }

    /// Creates the maps, sets the globals and has the kernel verify the programs. Nothing runs yet.
    pub fn load(
        &self,
        set: &'static ProgramSet,
        globals: &[(&'static str, u32)],
        map_sizes: &[(&'static str, u32)],
    ) -> Result<Loaded, LoadError> {
        self.load_with_table(set, globals, None, map_sizes)
    }

    /// As [`load`](Self::load), for programs with a global that is a table of bytes.
    pub fn load_with_table(
        &self,
        set: &'static ProgramSet,
        globals: &[(&'static str, u32)],
        table: Option<(&'static str, &[u8])>,
        map_sizes: &[(&'static str, u32)],
    ) -> Result<Loaded, LoadError> {
        let mut object = self.read(&set.object)?.into_owned();
        self.shared.put_into(&mut object);
        let request = Request { set, globals, table, map_sizes };
        let Some(cast) = self.cast.as_ref().filter(|_| Cast::is_wanted_by(&object)) else {
            return self.load_object(&object, &request);
        };
        let globals = &[globals, &cast.globals()].concat();
        let with_casts = self.load_object(&cast.put_into(&object), &Request { globals, ..request });
        with_casts.or_else(|error| {
            let loaded = self.load_object(&object, &request)?;
            warn!(object = set.object.file, %error, "Running without casts: the kernel refused them.");
            Ok(loaded)
        })
    }

    /// Loads the object with its settings folded in. Programs that the verifier refuses so are left as they
    /// are.
    fn load_object(&self, object: &[u8], request: &Request) -> Result<Loaded, LoadError> {
        let file = request.set.object.file;
        let mut unfolded: Vec<Refusal> = Vec::new();
        loop {
            let names: Vec<_> = unfolded.iter().map(|refusal| refusal.program).collect();
            let folded = fold(object, request.globals, &names)
                .map_err(|error| LoadError::Unreadable(format!("{file}: {error}")))?;
            let mut refused = Vec::new();
            let loaded = self.load_once(&folded, request, &mut refused);
            let is_new = |refusal: &Refusal| !names.contains(&refusal.program);
            let (new, known): (Vec<_>, Vec<_>) = refused.into_iter().partition(is_new);
            if new.is_empty() {
                if loaded.is_ok() {
                    report_accepted(file, &unfolded, &known);
                }
                return loaded;
            }
            unfolded.extend(new);
        }
    }

    fn load_once(
        &self,
        object: &[u8],
        request: &Request,
        refused: &mut Vec<Refusal>,
    ) -> Result<Loaded, LoadError> {
        let Request { set, globals, table, map_sizes } = *request;
        let mut loader = EbpfLoader::new();
        loader.btf(self.btf.as_ref().ok()).allow_unsupported_maps();
        for (name, value) in globals {
            // An object may lack globals that only decide which programs are needed, and the ids of types
            // that it does not use.
            let may_lack = probe::decides_on_programs(name) || Cast::sets(name);
            loader.override_global(name, value, !may_lack);
        }
        if let Some((name, bytes)) = table {
            loader.override_global(name, bytes, true);
        }
        for (name, entries) in map_sizes.iter().chain(self.trial.iter().flatten()) {
            loader.map_max_entries(name, *entries);
        }
        let ebpf = loader.load(object).map_err(|error| LoadError::Object(chain(&error)))?;
        let mut loaded = Loaded::new(ebpf, set, globals, self.trial.is_none());
        loaded.each_program(|program, row| {
            let verified = self.verify(program, row);
            if let Some(error) = verified.as_ref().err().filter(|error| is_by_verifier(error)) {
                refused.push(Refusal { program: row.name, reason: refusal(error) });
            }
            verified
        })?;
        Ok(loaded)
    }

    fn verify(&self, program: &mut Program, row: &probe::Program) -> Result<(), ProgramError> {
        match row.hook {
            Hook::TpBtf(tracepoint) => <&mut BtfTracePoint>::try_from(program)?.load(tracepoint, self.btf()?),
            Hook::Fentry(_) => {
                let program = <&mut FEntry>::try_from(program)?;
                first_name(row, |function| program.load(function, self.btf()?))
            }
            Hook::Fexit(_) => {
                let program = <&mut FExit>::try_from(program)?;
                first_name(row, |function| program.load(function, self.btf()?))
            }
            Hook::Kprobe(_) | Hook::Kretprobe(_) => <&mut KProbe>::try_from(program)?.load(),
            Hook::RawTp(_) | Hook::OnDemand => <&mut RawTracePoint>::try_from(program)?.load(),
            Hook::TaskIterator | Hook::TaskScan => <&mut Iter>::try_from(program)?.load("task", self.btf()?),
            Hook::FileIterator | Hook::FileScan => {
                <&mut Iter>::try_from(program)?.load("task_file", self.btf()?)
            }
            Hook::SocketIterator(_) => {
                <&mut Iter>::try_from(program)?.load("bpf_sk_storage_map", self.btf()?)
            }
        }
    }

    fn read(&self, object: &Object) -> Result<Cow<'static, [u8]>, LoadError> {
        let Some(directory) = &self.objects else { return Ok(Cow::Borrowed(object.bytes)) };
        let path = directory.join(object.file);
        let unreadable = |error| LoadError::Unreadable(format!("{}: {error}", path.display()));
        std::fs::read(&path).map(Cow::Owned).map_err(unreadable)
    }

    fn btf(&self) -> Result<&Btf, ProgramError> {
        self.btf.as_ref().map_err(|reason| ProgramError::IOError(std::io::Error::other(reason.clone())))
    }
}

/// Reports the programs that the verifier refused only with their settings folded in.
fn report_accepted(object: &str, unfolded: &[Refusal], refused: &[Refusal]) {
    let is_refused = |program: &str| refused.iter().any(|refusal| refusal.program == program);
    for Refusal { program, reason } in unfolded.iter().filter(|refusal| !is_refused(refusal.program)) {
        warn!(object, program, %reason, "Running unfolded: the verifier refused the folded program.");
    }
}
