//! Individual slow requests, only on request.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Culprit, Workload};

/// The latest slow requests of all workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowSample {
    /// The threshold in nanoseconds.
    pub from_ns: u64,
    /// Number of records that found no room on their way to the agent, since it started.
    pub lost: u64,
    /// The oldest first.
    pub requests: Vec<SlowRequest>,
}

/// A request, or other data, that was received and read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Its reader.
    pub workload: Workload,
    /// When it was read, in `CLOCK_MONOTONIC`.
    pub read_ns: u64,
    pub took_ns: u64,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The sender; `None` if the socket is not connected.
    pub peer: Option<IpAddr>,
    pub peer_port: u16,
    /// The local port.
    pub port: u16,
    /// The thread that read it.
    pub pid: u32,
    pub tid: u32,
    pub thread: String,
    /// In the order in which the data passed them: the value of the `stage` label, and nanoseconds.
    pub stages: Vec<(String, u64)>,
    /// The occupants of the CPU while the reader waited for it, the longest first. They sum to less than the
    /// wait if a part of it is unknown.
    pub occupants: Vec<Occupant>,
}

/// An occupant of a CPU, and how long it had the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    pub who: Who,
    pub ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// A pod, or a workload outside of pods. The reader's own threads and containers count as the reader's
    /// pod.
    Workload(Culprit),
    Kernel,
    Interrupt,
    /// The CPU was idle: it had not switched to the reader yet, or the reader's quota was used up.
    Idle,
    Unknown,
}
