//! Loads one domain's object, attaches its programs in the table's order, and keeps what must stay open.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use aya::maps::Map;
use aya::programs::{BtfTracePoint, FEntry, Iter, KProbe, Program, ProgramError, RawTracePoint};
use aya::{Btf, Ebpf, EbpfLoader};

use super::syscall;
use crate::probe::{Hook, TierSet};

/// Why a domain could not be started: a sentence that ends up in the domain's reason.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the kernel refuses the object: {0}")]
    Object(String),
    #[error("the object has no {kind} {name}")]
    Absent { kind: &'static str, name: &'static str },
    #[error("the kernel refuses {program}: {reason}")]
    Program { program: &'static str, reason: String },
    #[error("the map {map} cannot be mapped or filled: {reason}")]
    Map { map: &'static str, reason: String },
}

/// Loads domains; holds the kernel's BTF meanwhile, which is several megabytes. Without it the tiers that need no types
/// still work.
pub struct Loader {
    btf: Result<Btf, String>,
}

/// A domain's object with its programs attached. Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct Loaded {
    ebpf: Ebpf,
    set: &'static TierSet,
}

impl Loader {
    #[must_use]
    pub fn new(btf: &std::path::Path) -> Self {
        Self { btf: Btf::parse_file(btf, aya::Endianness::default()).map_err(|error| chain(&error)) }
    }

    /// Makes the maps, sets the globals and has the kernel verify the programs. Nothing runs yet.
    pub fn load(
        &self,
        set: &'static TierSet,
        globals: &[(&'static str, u32)],
        map_sizes: &[(&'static str, u32)],
    ) -> Result<Loaded, LoadError> {
        let mut loader = EbpfLoader::new();
        loader.btf(self.btf.as_ref().ok()).allow_unsupported_maps();
        for (name, value) in globals {
            loader.override_global(name, value, true);
        }
        for (name, entries) in map_sizes {
            loader.map_max_entries(name, *entries);
        }
        let ebpf = loader.load(set.object).map_err(|error| LoadError::Object(chain(&error)))?;
        let mut loaded = Loaded { ebpf, set };
        loaded.each_program(|program, hook| match hook {
            Hook::TpBtf(tracepoint) => <&mut BtfTracePoint>::try_from(program)?.load(tracepoint, self.btf()?),
            Hook::Fentry(function) => <&mut FEntry>::try_from(program)?.load(function, self.btf()?),
            Hook::Kprobe(_) => <&mut KProbe>::try_from(program)?.load(),
            Hook::RawTp(_) | Hook::OnDemand => <&mut RawTracePoint>::try_from(program)?.load(),
            Hook::TaskIterator => <&mut Iter>::try_from(program)?.load("task", self.btf()?),
        })?;
        Ok(loaded)
    }

    fn btf(&self) -> Result<&Btf, ProgramError> {
        self.btf.as_ref().map_err(|reason| ProgramError::IOError(std::io::Error::other(reason.clone())))
    }
}

impl Loaded {
    /// Attaches the programs in the table's order. Maps that they rely on have been filled before.
    pub fn attach(&mut self) -> Result<(), LoadError> {
        self.each_program(|program, hook| match hook {
            Hook::TpBtf(_) => <&mut BtfTracePoint>::try_from(program)?.attach().map(drop),
            Hook::Fentry(_) => <&mut FEntry>::try_from(program)?.attach().map(drop),
            Hook::Kprobe(function) => <&mut KProbe>::try_from(program)?.attach(function, 0).map(drop),
            Hook::RawTp(tracepoint) => <&mut RawTracePoint>::try_from(program)?.attach(tracepoint).map(drop),
            Hook::OnDemand => Ok(()),
            Hook::TaskIterator => run_iterator(program.try_into()?),
        })
    }

    fn each_program(
        &mut self,
        mut act: impl FnMut(&mut Program, Hook) -> Result<(), ProgramError>,
    ) -> Result<(), LoadError> {
        for row in self.set.programs {
            let program = self
                .ebpf
                .program_mut(row.name)
                .ok_or(LoadError::Absent { kind: "program", name: row.name })?;
            act(program, row.hook)
                .map_err(|error| LoadError::Program { program: row.name, reason: refusal(&error) })?;
        }
        Ok(())
    }

    /// Takes a map out of the object, as the caller's own type.
    pub fn take_map<T>(&mut self, name: &'static str) -> Result<T, LoadError>
    where
        T: TryFrom<Map, Error = aya::maps::MapError>,
    {
        let map = self.ebpf.take_map(name).ok_or(LoadError::Absent { kind: "map", name })?;
        map.try_into().map_err(|error| LoadError::Map { map: name, reason: chain(&error) })
    }

    /// Takes an array out of the object and maps it; the map lives as long as the mapping.
    pub fn map_array<T: Copy>(&mut self, name: &'static str) -> Result<super::MappedArray<T>, LoadError> {
        let Some(Map::Array(data)) = self.ebpf.take_map(name) else {
            return Err(LoadError::Absent { kind: "map", name });
        };
        let wrong = |reason: String| LoadError::Map { map: name, reason };
        let info = data.info().map_err(|error| wrong(chain(&error)))?;
        if info.value_size() as usize != size_of::<T>() {
            return Err(wrong(format!("its values have {} bytes", info.value_size())));
        }
        super::MappedArray::new(data.fd().as_fd(), info.max_entries())
            .map_err(|error| wrong(error.to_string()))
    }

    /// A descriptor of a map that is still in the object, for what aya's own types cannot do.
    pub fn map_descriptor(&self, name: &'static str) -> Result<OwnedFd, LoadError> {
        let Some(Map::HashMap(data) | Map::Array(data)) = self.ebpf.map(name) else {
            return Err(LoadError::Absent { kind: "map", name });
        };
        let failed = |error: std::io::Error| LoadError::Map { map: name, reason: error.to_string() };
        data.fd().as_fd().try_clone_to_owned().map_err(failed)
    }

    /// Runs a program once on each CPU, in an interrupt there. CPUs that have gone meanwhile are passed over.
    pub fn run_on(&self, name: &'static str, cpus: &[u32]) -> Result<(), LoadError> {
        let program = self.ebpf.program(name).ok_or(LoadError::Absent { kind: "program", name })?;
        let refused = |reason: String| LoadError::Program { program: name, reason };
        let fd = program.fd().map_err(|error| refused(chain(&error)))?;
        for cpu in cpus {
            match syscall::run_on_cpu(fd.as_fd(), *cpu) {
                Err(error) if error.raw_os_error() != Some(libc::ENXIO) => {
                    return Err(refused(error.to_string()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs an iterator again. Nothing happens where the tier has none.
    pub fn iterate(&mut self, name: &'static str) -> Result<(), LoadError> {
        if !self.set.programs.iter().any(|row| row.name == name) {
            return Ok(());
        }
        let program = self.ebpf.program_mut(name).ok_or(LoadError::Absent { kind: "program", name })?;
        let run = program.try_into().and_then(run_iterator);
        run.map_err(|error| LoadError::Program { program: name, reason: refusal(&error) })
    }

    /// The kernel's statistics of each program.
    pub fn programs(&self) -> impl Iterator<Item = ProgramStatistics> {
        self.set.programs.iter().filter_map(|row| {
            let program = self.ebpf.program(row.name)?.fd().ok()?;
            let info = syscall::program_info(program.as_fd()).ok()?;
            Some(ProgramStatistics {
                name: row.name,
                runs: info.run_cnt,
                run_ns: info.run_time_ns,
                missed: info.recursion_misses,
                verified_instructions: info.verified_insns,
            })
        })
    }
}

/// Runs and time stay zero unless the kernel's program statistics are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramStatistics {
    pub name: &'static str,
    pub runs: u64,
    pub run_ns: u64,
    pub missed: u64,
    /// 0 before kernel 5.16.
    pub verified_instructions: u32,
}

/// Reading an iterator's file to its end is what runs it over every task.
fn run_iterator(program: &mut Iter) -> Result<(), ProgramError> {
    let failed = |error: aya::programs::links::LinkError| ProgramError::IOError(std::io::Error::other(error));
    let link = program.attach()?;
    let mut file = program.take_link(link)?.into_file().map_err(failed)?;
    let mut output = Vec::new();
    file.read_to_end(&mut output).map_err(ProgramError::IOError)?;
    Ok(())
}

/// The verifier's log ends with the reason; the rest would only hide it.
fn refusal(error: &ProgramError) -> String {
    const LAST_LINES: usize = 8;
    let ProgramError::LoadError { io_error, verifier_log } = error else { return chain(error) };
    let log = verifier_log.to_string();
    let lines: Vec<_> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    if last.is_empty() {
        io_error.to_string()
    } else {
        format!("{io_error}; the verifier's last lines:\n{last}")
    }
}

/// An error with its causes on one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let mut text = error.to_string();
    for cause in causes {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
