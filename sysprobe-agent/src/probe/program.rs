//! A program, and the hook that triggers it.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    pub hook: Hook,
    pub does: &'static str,
    /// Names that the hooked function had in older kernels, the newest first.
    pub older: &'static [&'static str],
    /// Whether the attach mode is useless without it. A program that is not required is left out if the
    /// kernel rejects it.
    pub required: bool,
    /// A global: if the kernel has the global's member, this program is not needed and is left out.
    pub unless: Option<&'static str>,
    /// An earlier program in the table. This one is attached (and if it is an iterator, loaded) only if the
    /// kernel rejected that one.
    pub instead_of: Option<&'static str>,
}

/// How a program is triggered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    TpBtf(&'static str),
    Fentry(&'static str),
    Fexit(&'static str),
    Kprobe(&'static str),
    Kretprobe(&'static str),
    RawTp(&'static str),
    /// Never attached: the agent runs it on each CPU before it reads.
    OnDemand,
    /// An iterator over all tasks, run once at start.
    TaskIterator,
    /// The same, run for every task scan.
    TaskScan,
    /// An iterator over all files that tasks have open, run once at start.
    FileIterator,
    /// The same, run for every socket scan.
    FileScan,
    /// An iterator over all sockets with an entry in one of these socket storage maps, run for every socket
    /// scan.
    SocketIterator(&'static [&'static str]),
}

/// A function or tracepoint of the kernel to which programs can be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Name of a function.
    Function(&'static str),
    /// Name of a tracepoint.
    Tracepoint(&'static str),
}

impl Program {
    /// A required program on a hook that never had another name.
    #[must_use]
    pub const fn new(name: &'static str, hook: Hook, does: &'static str) -> Self {
        Self { name, hook, does, older: &[], required: true, unless: None, instead_of: None }
    }

    /// The same, left out if the kernel has this global's member.
    #[must_use]
    pub const fn unless(self, global: &'static str) -> Self {
        Self { unless: Some(global), ..self }
    }

    /// The same, attached only if `program` cannot be.
    #[must_use]
    pub const fn instead_of(self, program: &'static str) -> Self {
        Self { instead_of: Some(program), ..self }
    }

    /// Its target under the newest name, then under the older ones.
    pub fn targets(&self) -> impl Iterator<Item = Target> {
        self.hook.target().into_iter().chain(self.older.iter().copied().map(Target::Function))
    }

    /// The names of the function or tracepoint that it hooks, in the same order.
    pub fn hooked(&self) -> impl Iterator<Item = &'static str> {
        self.targets().map(Target::name)
    }
}

impl Target {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Function(name) | Self::Tracepoint(name) => name,
        }
    }
}

impl Hook {
    /// `None` for programs that run only when the agent triggers them.
    #[must_use]
    pub const fn target(self) -> Option<Target> {
        match self {
            Self::TpBtf(name) | Self::RawTp(name) => Some(Target::Tracepoint(name)),
            Self::Fentry(name) | Self::Fexit(name) | Self::Kprobe(name) | Self::Kretprobe(name) => {
                Some(Target::Function(name))
            }
            Self::OnDemand
            | Self::TaskIterator
            | Self::TaskScan
            | Self::FileIterator
            | Self::FileScan
            | Self::SocketIterator(_) => None,
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::TpBtf(name) => ("tp_btf", name),
            Self::Fentry(name) => ("fentry", name),
            Self::Fexit(name) => ("fexit", name),
            Self::Kprobe(name) => ("kprobe", name),
            Self::Kretprobe(name) => ("kretprobe", name),
            Self::RawTp(name) => ("raw_tp", name),
            Self::OnDemand => ("raw_tp", &"on demand"),
            Self::TaskIterator => ("iter", &"task, once"),
            Self::TaskScan => ("iter", &"task"),
            Self::FileIterator => ("iter", &"task_file, once"),
            Self::FileScan => ("iter", &"task_file"),
            Self::SocketIterator(_) => ("iter", &"bpf_sk_storage_map"),
        };
        write!(formatter, "{kind}/{name}")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(name) => write!(formatter, "function {name}"),
            Self::Tracepoint(name) => write!(formatter, "tracepoint {name}"),
        }
    }
}
