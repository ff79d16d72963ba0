//! A loaded object: attaches its programs in the table's order, hands out its maps, and keeps what must stay open.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use aya::Ebpf;
use aya::maps::Map;
use aya::programs::{BtfTracePoint, FEntry, Iter, KProbe, Program, ProgramError, RawTracePoint};

use super::kprobe::Kprobe;
use super::reason::{chain, refusal};
use super::{LoadError, MappedArray, syscall};
use crate::probe::{Hook, TierSet};

/// A domain's object with its programs attached. Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct Loaded {
    ebpf: Ebpf,
    set: &'static TierSet,
    /// Whether `attach` does anything.
    attaches: bool,
    /// By the programs' names.
    kprobes: Vec<(&'static str, Kprobe)>,
}

impl Loaded {
    pub(super) const fn new(ebpf: Ebpf, set: &'static TierSet, attaches: bool) -> Self {
        Self { ebpf, set, attaches, kprobes: Vec::new() }
    }

    /// Attaches the programs in the table's order. Maps that they rely on have been filled before.
    pub fn attach(&mut self) -> Result<(), LoadError> {
        if !self.attaches {
            return Ok(());
        }
        let mut kprobes = Vec::new();
        self.each_program(|program, hook| match hook {
            Hook::TpBtf(_) => <&mut BtfTracePoint>::try_from(program)?.attach().map(drop),
            Hook::Fentry(_) => <&mut FEntry>::try_from(program)?.attach().map(drop),
            Hook::Kprobe(function) => {
                let program = <&mut KProbe>::try_from(program)?;
                let kprobe =
                    Kprobe::attach(program.fd()?.as_fd(), function).map_err(ProgramError::IOError)?;
                kprobes.push(kprobe);
                Ok(())
            }
            Hook::RawTp(tracepoint) => <&mut RawTracePoint>::try_from(program)?.attach(tracepoint).map(drop),
            Hook::OnDemand => Ok(()),
            Hook::TaskIterator => run_iterator(program.try_into()?),
        })?;
        let rows = self.set.programs.iter().filter(|row| matches!(row.hook, Hook::Kprobe(_)));
        self.kprobes = rows.map(|row| row.name).zip(kprobes).collect();
        Ok(())
    }

    pub(super) fn each_program(
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
    pub fn map_array<T: Copy>(&mut self, name: &'static str) -> Result<MappedArray<T>, LoadError> {
        let Some(Map::Array(data)) = self.ebpf.take_map(name) else {
            return Err(LoadError::Absent { kind: "map", name });
        };
        let wrong = |reason: String| LoadError::Map { map: name, reason };
        let info = data.info().map_err(|error| wrong(chain(&error)))?;
        if info.value_size() as usize != size_of::<T>() {
            return Err(wrong(format!("its values have {} bytes", info.value_size())));
        }
        MappedArray::new(data.fd().as_fd(), info.max_entries()).map_err(|error| wrong(error.to_string()))
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
            let hits = self.kprobes.iter().filter(|(name, _)| *name == row.name);
            Some(ProgramStatistics {
                name: row.name,
                runs: info.run_cnt,
                run_ns: info.run_time_ns,
                missed: info.recursion_misses + hits.map(|(_, kprobe)| kprobe.missed()).sum::<u64>(),
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
    /// Runs that the kernel left out. Those of kprobes are 0 before kernel 6.7.
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
