//! A loaded object: attaches its programs in the table's order, hands out its maps, and keeps the descriptors
//! that must stay open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use aya::Ebpf;
use aya::maps::{Map, MapData};
use aya::programs::links::FdLink;
use aya::programs::{FEntry, FExit, KProbe, Program, ProgramError};

use super::attach::{first_name, link_to_all, scan_of, seed, to_tracepoint};
use super::kprobe::{Kprobe, Place};
use super::reason::{chain, refusal};
use super::scan::{Scan, ScanStatistics};
use super::{Lanes, LoadError, MappedArray, Plain, syscall};
use crate::probe::{self, ABSENT, Hook, ProgramSet};

/// A domain's object with its programs attached. Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct Loaded {
    ebpf: Ebpf,
    set: &'static ProgramSet,
    /// False if the programs are only verified: then `attach` does nothing.
    attaches: bool,
    /// Links of the programs on tracepoints, by program name.
    links: Vec<(&'static str, FdLink)>,
    /// Kprobes, by program name.
    kprobes: Vec<(&'static str, Kprobe)>,
    /// The iterators, ready to run.
    scans: Vec<Scan>,
    /// Programs that are not needed on this kernel.
    unneeded: Vec<&'static str>,
    /// Names of the programs that the verifier has accepted.
    verified: Vec<&'static str>,
    /// Names of the programs that are attached; `None` before `attach`.
    attached: Option<Vec<&'static str>>,
    /// Optional programs that the kernel refused, and why.
    left_out: Vec<(&'static probe::Program, String)>,
}

/// Gives access to a domain's programs.
pub trait Running {
    fn loaded(&self) -> &Loaded;
}

impl<R: Running + ?Sized> Running for Box<R> {
    fn loaded(&self) -> &Loaded {
        (**self).loaded()
    }
}

impl Loaded {
    pub(super) fn new(
        ebpf: Ebpf,
        set: &'static ProgramSet,
        globals: &[(&'static str, u32)],
        attaches: bool,
    ) -> Self {
        let has = |global| globals.iter().any(|(name, value)| *name == global && *value != ABSENT);
        let unneeded = set.programs.iter().filter(|row| row.unless.is_some_and(has));
        Self {
            ebpf,
            set,
            attaches,
            links: Vec::new(),
            kprobes: Vec::new(),
            scans: Vec::new(),
            unneeded: unneeded.map(|row| row.name).collect(),
            verified: Vec::new(),
            attached: None,
            left_out: Vec::new(),
        }
    }

    /// Attaches the programs in the table's order. The maps that they rely on must have been filled before.
    pub fn attach(&mut self) -> Result<(), LoadError> {
        if !self.attaches {
            return Ok(());
        }
        let (mut links, mut kprobes, mut scans) = (Vec::new(), Vec::new(), Vec::new());
        let maps = self.walked_maps()?;
        self.attached = Some(Vec::new());
        self.each_program(|program, row| match row.hook {
            Hook::TpBtf(_) | Hook::RawTp(_) => {
                links.push((row.name, to_tracepoint(program, row)?));
                Ok(())
            }
            Hook::Fentry(_) => <&mut FEntry>::try_from(program)?.attach().map(drop),
            Hook::Fexit(_) => <&mut FExit>::try_from(program)?.attach().map(drop),
            Hook::Kprobe(_) | Hook::Kretprobe(_) => {
                let at = if matches!(row.hook, Hook::Kprobe(_)) { Place::Entry } else { Place::Return };
                let program = <&mut KProbe>::try_from(program)?.fd()?.as_fd();
                let attach = |function| Kprobe::attach(program, function, at).map_err(ProgramError::IOError);
                kprobes.push((row.name, first_name(row, attach)?));
                Ok(())
            }
            Hook::OnDemand => Ok(()),
            Hook::TaskIterator | Hook::FileIterator => {
                let scan = scan_of(program, row, link_to_all)?;
                seed(&scan).map_err(ProgramError::IOError)?;
                scans.push(scan);
                Ok(())
            }
            Hook::SocketIterator(_) => {
                let links = |program: BorrowedFd<'_>| {
                    maps.iter().map(|map| syscall::link_to_map(program, map.as_fd())).collect()
                };
                scans.push(scan_of(program, row, links)?);
                Ok(())
            }
            Hook::TaskScan | Hook::FileScan => {
                scans.push(scan_of(program, row, link_to_all)?);
                Ok(())
            }
        })?;
        self.links = links;
        self.kprobes = kprobes;
        self.scans = scans;
        Ok(())
    }

    /// Detaches programs from their tracepoints. They stay loaded.
    pub fn detach(&mut self, programs: &[&str]) {
        self.links.retain(|(name, _)| !programs.contains(name));
    }

    /// Reattaches programs to their tracepoints, in the table's order, unless they are attached.
    pub fn attach_again(&mut self, programs: &[&str]) -> Result<(), LoadError> {
        for row in self.set.programs {
            let is_on = self.links.iter().any(|(name, _)| *name == row.name);
            if is_on || !programs.contains(&row.name) || self.is_left_out(row) {
                continue;
            }
            let refused = |reason| LoadError::Program { program: row.name, reason };
            let program = self.ebpf.program_mut(row.name);
            let program = program.ok_or(LoadError::Absent { kind: "program", name: row.name })?;
            let link = to_tracepoint(program, row).map_err(|error| refused(refusal(&error)))?;
            self.links.push((row.name, link));
        }
        Ok(())
    }

    /// Applies `act` to each program. An optional program that the kernel refuses is left out, and so is the
    /// other program on the same function.
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
                Ok(()) => self.attached.as_mut().unwrap_or(&mut self.verified).push(row.name),
                Err(error) if row.required => {
                    return Err(LoadError::Program { program: row.name, reason: refusal(&error) });
                }
                Err(error) => self.left_out.push((row, refusal(&error))),
            }
        }
        Ok(())
    }

    /// Whether this program, or another one on the same function, is left out.
    fn is_left_out(&self, row: &probe::Program) -> bool {
        let has_better = row.instead_of.is_some_and(|other| self.is_accepted(row.hook, other));
        if self.unneeded.contains(&row.name) || has_better {
            return true;
        }
        let is_same = |other: &probe::Program| match row.hook.target() {
            Some(target) => other.hook.target() == Some(target),
            None => other.name == row.name,
        };
        self.left_out.iter().any(|(other, _)| is_same(other))
    }

    /// Whether the kernel has accepted the program `name`, so that its stand-in on `hook` is not needed. For
    /// an iterator the verifier's answer suffices, and the stand-in need not even be verified. Other programs
    /// may still be refused when they are attached.
    fn is_accepted(&self, hook: Hook, name: &str) -> bool {
        let decides = matches!(hook, Hook::TaskScan | Hook::FileScan | Hook::SocketIterator(_));
        self.is_attached(name) || decides && self.verified.contains(&name)
    }

    fn is_attached(&self, name: &str) -> bool {
        self.attached.iter().flatten().any(|other| *other == name)
    }

    /// Whether an attached program does this program's work.
    fn is_replaced(&self, name: &str) -> bool {
        let mut others = self.set.programs.iter().filter(|row| row.instead_of == Some(name));
        others.any(|row| self.is_attached(row.name))
    }

    /// What is not measured because the kernel refused a program, as sentences.
    pub fn left_out(&self) -> impl Iterator<Item = String> {
        self.missing().map(|(program, reason)| {
            let functions: Vec<_> = program.hooked().collect();
            if functions.is_empty() {
                return format!("{} ({}) is left out: {reason}", program.name, program.does);
            }
            format!("calls to {} are not seen: {reason}", functions.join(" or "))
        })
    }

    /// The functions and tracepoints of the same programs.
    pub fn unseen(&self) -> impl Iterator<Item = &'static str> {
        self.missing().flat_map(|(program, _)| program.hooked())
    }

    /// Programs that the kernel refused and that no other program replaces, with its words.
    fn missing(&self) -> impl Iterator<Item = &(&'static probe::Program, String)> {
        self.left_out.iter().filter(|(program, _)| !self.is_replaced(program.name))
    }

    /// Whether a program runs: the kernel has accepted it, and it is needed.
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
    pub fn map_array<T: Plain>(&mut self, name: &'static str) -> Result<MappedArray<T>, LoadError> {
        self.take_array(name, MappedArray::new)
    }

    /// Takes counters out of the object and maps them.
    pub fn map_lanes(&mut self, name: &'static str) -> Result<Lanes, LoadError> {
        Ok(Lanes::new(self.map_array(name)?))
    }

    /// As [`map_array`](Self::map_array), for a large array of which little may be in use.
    pub fn map_growing_array<T: Plain>(&mut self, name: &'static str) -> Result<MappedArray<T>, LoadError> {
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

    /// A descriptor of a hash, an array or storage that is still in the object, for what aya cannot do.
    pub fn map_descriptor(&self, name: &'static str) -> Result<OwnedFd, LoadError> {
        let failed = |error: io::Error| LoadError::Map { map: name, reason: error.to_string() };
        self.map_data(name)?.fd().as_fd().try_clone_to_owned().map_err(failed)
    }

    /// The number of entries of a hash or an array that is still in the object.
    pub fn map_entries(&self, name: &'static str) -> Result<u32, LoadError> {
        let info = self.map_data(name)?.info();
        let info = info.map_err(|error| LoadError::Map { map: name, reason: chain(&error) })?;
        Ok(info.max_entries())
    }

    fn map_data(&self, name: &'static str) -> Result<&MapData, LoadError> {
        match self.ebpf.map(name) {
            Some(
                Map::HashMap(data)
                | Map::Array(data)
                | Map::SkStorage(data)
                | Map::ArrayOfMaps(data)
                | Map::Unsupported(data),
            ) => Ok(data),
            _ => Err(LoadError::Absent { kind: "map", name }),
        }
    }

    /// Puts maps into an array of maps, in their order.
    pub fn gather(&self, array: &'static str, maps: &[&'static str]) -> Result<(), LoadError> {
        let into = self.map_descriptor(array)?;
        for (place, map) in (0_u32..).zip(maps) {
            let put = syscall::put_map(into.as_fd(), place, self.map_descriptor(map)?.as_fd());
            put.map_err(|error| LoadError::Map { map, reason: error.to_string() })?;
        }
        Ok(())
    }

    /// Runs a program once on each CPU, in an interrupt there. CPUs that have gone offline meanwhile are
    /// skipped.
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

    /// The scan of an iterator; `None` if this attach mode has none, or the kernel refused it.
    #[must_use]
    pub fn scan(&self, program: &'static str) -> Option<Scan> {
        self.scans.iter().find(|scan| scan.program() == program).cloned()
    }

    /// Statistics of each scan.
    pub fn scans(&self) -> impl Iterator<Item = ScanStatistics> {
        self.scans.iter().map(Scan::statistics)
    }

    /// The maps whose elements the socket iterator walks. An object has at most one such iterator.
    fn walked_maps(&self) -> Result<Vec<OwnedFd>, LoadError> {
        let maps = self.set.programs.iter().filter_map(|row| match row.hook {
            Hook::SocketIterator(maps) => Some(maps),
            _ => None,
        });
        maps.flatten().map(|map| self.map_descriptor(map)).collect()
    }

    /// The domain that the programs belong to.
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

/// Runs and time stay zero unless the kernel's program statistics are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramStatistics {
    pub name: &'static str,
    pub hook: Hook,
    pub runs: u64,
    pub run_ns: u64,
    /// Runs that the kernel skipped. For kprobes, 0 before kernel 6.7.
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
