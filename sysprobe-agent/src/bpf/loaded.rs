//! A loaded object: attaches its programs in the table's order, hands out its maps, and keeps what must stay open.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::Ebpf;
use aya::maps::Map;
use aya::programs::{BtfTracePoint, FEntry, FExit, Iter, KProbe, Program, ProgramError, RawTracePoint};

use super::kprobe::{Kprobe, Place};
use super::reason::{chain, refusal};
use super::{LoadError, MappedArray, syscall};
use crate::probe::{self, ABSENT, Hook, TierSet};

/// A domain's object with its programs attached. Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct Loaded {
    ebpf: Ebpf,
    set: &'static TierSet,
    /// Whether `attach` does anything.
    attaches: bool,
    /// By the programs' names.
    kprobes: Vec<(&'static str, Kprobe)>,
    /// Iterators that are run more than once, by the programs' names.
    walks: Vec<(&'static str, Walk)>,
    /// Programs that are not needed on this kernel.
    unneeded: Vec<&'static str>,
    /// Programs that the kernel refused and that are not required, with its reasons.
    left_out: Vec<(&'static probe::Program, String)>,
}

/// An iterator that can be run again and again.
#[derive(Debug)]
pub struct Walk(OwnedFd);

/// What has a domain's programs.
pub trait Running {
    fn loaded(&self) -> &Loaded;
}

impl Loaded {
    pub(super) fn new(
        ebpf: Ebpf,
        set: &'static TierSet,
        globals: &[(&'static str, u32)],
        attaches: bool,
    ) -> Self {
        let has = |global| globals.iter().any(|(name, value)| *name == global && *value != ABSENT);
        let unneeded = set.programs.iter().filter(|row| row.unless.is_some_and(has));
        Self {
            ebpf,
            set,
            attaches,
            kprobes: Vec::new(),
            walks: Vec::new(),
            unneeded: unneeded.map(|row| row.name).collect(),
            left_out: Vec::new(),
        }
    }

    /// Attaches the programs in the table's order. Maps that they rely on have been filled before.
    pub fn attach(&mut self) -> Result<(), LoadError> {
        if !self.attaches {
            return Ok(());
        }
        let (mut kprobes, mut walks) = (Vec::new(), Vec::new());
        let maps = self.walked_maps()?;
        self.each_program(|program, row| match row.hook {
            Hook::TpBtf(_) => <&mut BtfTracePoint>::try_from(program)?.attach().map(drop),
            Hook::Fentry(_) => <&mut FEntry>::try_from(program)?.attach().map(drop),
            Hook::Fexit(_) => <&mut FExit>::try_from(program)?.attach().map(drop),
            Hook::Kprobe(_) | Hook::Kretprobe(_) => {
                let at = if matches!(row.hook, Hook::Kprobe(_)) { Place::Entry } else { Place::Return };
                let program = <&mut KProbe>::try_from(program)?.fd()?.as_fd();
                let attach = |function| Kprobe::attach(program, function, at).map_err(ProgramError::IOError);
                kprobes.push((row.name, first_name(row, attach)?));
                Ok(())
            }
            Hook::RawTp(tracepoint) => <&mut RawTracePoint>::try_from(program)?.attach(tracepoint).map(drop),
            Hook::OnDemand => Ok(()),
            Hook::TaskIterator | Hook::FileIterator => run_iterator(program.try_into()?),
            Hook::SocketIterator(map) => {
                let program = <&mut Iter>::try_from(program)?.fd()?.as_fd();
                let over = maps.iter().find(|(name, _)| *name == map);
                let over = over.ok_or_else(|| ProgramError::IOError(io::ErrorKind::NotFound.into()))?;
                let link = syscall::link_to_map(program, over.1.as_fd()).map_err(ProgramError::IOError)?;
                walks.push((row.name, Walk(link)));
                Ok(())
            }
            Hook::TaskCensus => {
                let program = <&mut Iter>::try_from(program)?.fd()?.as_fd();
                let link = syscall::link_iterator(program).map_err(ProgramError::IOError)?;
                walks.push((row.name, Walk(link)));
                Ok(())
            }
        })?;
        self.kprobes = kprobes;
        self.walks = walks;
        Ok(())
    }

    /// What the kernel refuses is left out if it can be, and so is the other program on the same function.
    pub(super) fn each_program(
        &mut self,
        mut act: impl FnMut(&mut Program, &probe::Program) -> Result<(), ProgramError>,
    ) -> Result<(), LoadError> {
        for row in self.set.programs {
            if self.is_left_out(row) {
                continue;
            }
            let program = self
                .ebpf
                .program_mut(row.name)
                .ok_or(LoadError::Absent { kind: "program", name: row.name })?;
            match act(program, row) {
                Ok(()) => {}
                Err(error) if row.required => {
                    return Err(LoadError::Program { program: row.name, reason: refusal(&error) });
                }
                Err(error) => self.left_out.push((row, refusal(&error))),
            }
        }
        Ok(())
    }

    /// Or another program on the same function is.
    fn is_left_out(&self, row: &probe::Program) -> bool {
        if self.unneeded.contains(&row.name) {
            return true;
        }
        let is_same = |other: &probe::Program| match row.hook.target() {
            Some(target) => other.hook.target() == Some(target),
            None => other.name == row.name,
        };
        self.left_out.iter().any(|(other, _)| is_same(other))
    }

    /// What is not seen because the kernel refused a program, as sentences.
    pub fn left_out(&self) -> impl Iterator<Item = String> {
        self.left_out.iter().map(|(program, reason)| {
            let functions: Vec<_> = program.hooked().collect();
            if functions.is_empty() {
                return format!("{} ({}) is left out: {reason}", program.name, program.does);
            }
            format!("calls of {} are not seen: {reason}", functions.join(" or "))
        })
    }

    /// Whether a program runs: the kernel has taken it, and it is needed.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        let mut programs = self.set.programs.iter().filter(|row| row.name == name);
        programs.any(|row| !self.is_left_out(row))
    }

    /// Takes a map out of the object, as the caller's own type.
    pub fn take_map<T>(&mut self, name: &'static str) -> Result<T, LoadError>
    where
        T: TryFrom<Map, Error = aya::maps::MapError>,
    {
        let map = self.ebpf.take_map(name).ok_or(LoadError::Absent { kind: "map", name })?;
        map.try_into().map_err(|error| LoadError::Map { map: name, reason: chain(&error) })
    }

    /// Takes an array out of the object and maps it.
    pub fn map_array<T: Copy>(&mut self, name: &'static str) -> Result<MappedArray<T>, LoadError> {
        self.take_array(name, MappedArray::new)
    }

    /// The same of a large one, of which little may be in use.
    pub fn map_growing_array<T: Copy>(&mut self, name: &'static str) -> Result<MappedArray<T>, LoadError> {
        self.take_array(name, MappedArray::growing)
    }

    fn take_array<T>(
        &mut self,
        name: &'static str,
        map: impl FnOnce(BorrowedFd<'_>, u32) -> io::Result<MappedArray<T>>,
    ) -> Result<MappedArray<T>, LoadError> {
        let Some(Map::Array(data)) = self.ebpf.take_map(name) else {
            return Err(LoadError::Absent { kind: "map", name });
        };
        let wrong = |reason: String| LoadError::Map { map: name, reason };
        let info = data.info().map_err(|error| wrong(chain(&error)))?;
        if info.value_size() as usize != size_of::<T>() {
            return Err(wrong(format!("its values have {} bytes", info.value_size())));
        }
        map(data.fd().as_fd(), info.max_entries()).map_err(|error| wrong(error.to_string()))
    }

    /// A descriptor of a map that is still in the object, for what aya's own types cannot do.
    pub fn map_descriptor(&self, name: &'static str) -> Result<OwnedFd, LoadError> {
        let Some(Map::HashMap(data) | Map::Array(data) | Map::SkStorage(data) | Map::Unsupported(data)) =
            self.ebpf.map(name)
        else {
            return Err(LoadError::Absent { kind: "map", name });
        };
        let failed = |error: io::Error| LoadError::Map { map: name, reason: error.to_string() };
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

    /// Runs an iterator over a map's sockets. Nothing happens where the tier has none.
    pub fn walk(&self, name: &'static str) -> Result<(), LoadError> {
        let Some((_, walk)) = self.walks.iter().find(|(other, _)| *other == name) else { return Ok(()) };
        walk.run().map_err(|error| LoadError::Program { program: name, reason: error.to_string() })
    }

    /// What runs an iterator without the rest; `None` where the tier has none, or the kernel refused it.
    pub fn walker(&self, name: &'static str) -> io::Result<Option<Walk>> {
        let walk = self.walks.iter().find(|(other, _)| *other == name);
        walk.map(|(_, walk)| walk.try_clone()).transpose()
    }

    fn walked_maps(&self) -> Result<Vec<(&'static str, OwnedFd)>, LoadError> {
        let maps = self.set.programs.iter().filter_map(|row| match row.hook {
            Hook::SocketIterator(map) => Some(map),
            _ => None,
        });
        maps.map(|map| Ok((map, self.map_descriptor(map)?))).collect()
    }

    /// Whose programs these are.
    #[must_use]
    pub fn domain(&self) -> &'static str {
        probe::domain_of(self.set).unwrap_or_default()
    }

    /// The kernel's statistics of each program.
    pub fn programs(&self) -> impl Iterator<Item = ProgramStatistics> {
        let in_use = self.set.programs.iter().filter(|row| !self.is_left_out(row));
        in_use.filter_map(|row| {
            let program = self.ebpf.program(row.name)?.fd().ok()?;
            let info = syscall::program_info(program.as_fd()).ok()?;
            let hits = self.kprobes.iter().filter(|(name, _)| *name == row.name);
            Some(ProgramStatistics {
                name: row.name,
                hook: row.hook,
                runs: info.run_cnt,
                run_ns: info.run_time_ns,
                missed: info.recursion_misses + hits.map(|(_, kprobe)| kprobe.missed()).sum::<u64>(),
                verified_instructions: info.verified_insns,
            })
        })
    }
}

impl Walk {
    /// Goes over everything once.
    pub fn run(&self) -> io::Result<()> {
        read_to_end(syscall::iterator_of(self.0.as_fd())?.into())
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

/// Runs and time stay zero unless the kernel's program statistics are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramStatistics {
    pub name: &'static str,
    pub hook: Hook,
    pub runs: u64,
    pub run_ns: u64,
    /// Runs that the kernel left out. Those of kprobes are 0 before kernel 6.7.
    pub missed: u64,
    /// 0 before kernel 5.16.
    pub verified_instructions: u32,
}

impl ProgramStatistics {
    #[must_use]
    pub const fn never_run(name: &'static str, hook: Hook) -> Self {
        Self { name, hook, runs: 0, run_ns: 0, missed: 0, verified_instructions: 0 }
    }
}

/// Tries the names that a function has had, one after the other. What is said of one that the kernel has counts, not that it lacks the
/// others.
pub(super) fn first_name<T>(
    row: &probe::Program,
    mut act: impl FnMut(&'static str) -> Result<T, ProgramError>,
) -> Result<T, ProgramError> {
    let mut tried = Err(ProgramError::IOError(io::Error::other("the table names no function")));
    for function in row.hooked() {
        let outcome = act(function);
        if outcome.is_ok() {
            return outcome;
        }
        if tried.as_ref().is_err_and(is_of_a_name) {
            tried = outcome;
        }
    }
    tried
}

/// Whether there is merely no function of that name.
fn is_of_a_name(error: &ProgramError) -> bool {
    match error {
        ProgramError::Btf(_) => true,
        ProgramError::IOError(error) => {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Other)
        }
        ProgramError::SyscallError(error) => error.io_error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Reading an iterator's file to its end is what runs it over every task.
fn run_iterator(program: &mut Iter) -> Result<(), ProgramError> {
    let failed = |error: aya::programs::links::LinkError| ProgramError::IOError(io::Error::other(error));
    let link = program.attach()?;
    let file = program.take_link(link)?.into_file().map_err(failed)?;
    read_to_end(file).map_err(ProgramError::IOError)
}

fn read_to_end(mut file: File) -> io::Result<()> {
    file.read_to_end(&mut Vec::new()).map(drop)
}
