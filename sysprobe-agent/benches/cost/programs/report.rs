//! What the measuring program tells `cargo xtask cost`, as lines of JSON. Both are built with this file, so
//! that the two forms cannot drift apart.

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Host(Host),
    Program(Program),
    Refused(Refused),
    RoundTrip(RoundTrip),
    Call(Watched),
    Request(Watched),
    Part(Part),
}

/// Where it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) release: String,
    pub(crate) cpus: u32,
}

/// One program of one attach mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) domain: String,
    pub(crate) mode: String,
    pub(crate) name: String,
    pub(crate) hook: String,
    /// Instructions that the verifier went through; kernels before 5.16 do not tell.
    pub(crate) verified: Option<u32>,
    pub(crate) cost: Result<Cost, String>,
}

/// Nanoseconds per run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Less what the empty program takes.
    pub(crate) net: Spread,
    /// What of it repeats best: on a clock that counts instructions, to the last one.
    pub(crate) steady: f64,
    /// The empty program's median.
    pub(crate) empty: f64,
    /// How often it ran for each action of the script.
    pub(crate) runs: f64,
}

/// Repeated measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    /// The quartiles.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// A domain that this kernel does not take through this attach mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) domain: String,
    pub(crate) mode: String,
    pub(crate) reason: String,
}

/// A call that is made again and again, with the programs of one agent or tool attached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) call: String,
    /// An attach mode of ours, or another tool.
    pub(crate) with: String,
    /// Nanoseconds without any program.
    pub(crate) nothing: f64,
    pub(crate) added: Spread,
}

/// What one program takes of each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) with: String,
    pub(crate) program: String,
    /// How often it ran for each request.
    pub(crate) runs: f64,
    /// Nanoseconds of a run.
    pub(crate) each: f64,
}

/// A byte's way to another process on the same CPU and back, which is two wakeups and two switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundTrip {
    pub(crate) mode: String,
    /// Nanoseconds without any program.
    pub(crate) nothing: f64,
    /// What an empty program on the switch's hook adds, and what all programs of the attach mode do.
    pub(crate) empty: Spread,
    pub(crate) product: Spread,
}
