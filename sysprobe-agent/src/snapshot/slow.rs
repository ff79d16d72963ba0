//! What took long, one by one, for those who ask.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Culprit, Workload};

/// The last that took long, of all workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowSample {
    /// From how many nanoseconds on.
    pub from_ns: u64,
    /// How many found no room on their way to the agent, since it started.
    pub lost: u64,
    /// The oldest first.
    pub requests: Vec<SlowRequest>,
}

/// One thing that was received and read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Its reader.
    pub workload: Workload,
    /// When it was read, in `CLOCK_MONOTONIC`.
    pub read_ns: u64,
    pub took_ns: u64,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Who sent it; unknown for a socket that is not connected.
    pub peer: Option<IpAddr>,
    pub peer_port: u16,
    /// The port that it came to.
    pub port: u16,
    /// The thread that read it.
    pub pid: u32,
    pub tid: u32,
    pub thread: String,
    /// In the order of the way: the value of the `stage` label, and nanoseconds.
    pub stages: Vec<(String, u64)>,
    /// Who had the reader's CPU while it waited for it, the longest first. Less than the wait where more is
    /// not known.
    pub occupants: Vec<Occupant>,
}

/// Who had a CPU, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    pub who: Who,
    pub ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// A pod, or what is none. The reader's own threads and containers are the reader's pod.
    Workload(Culprit),
    Kernel,
    Interrupt,
    /// Nobody: it was told of the reader and had not switched to it yet, or the reader's quota was used up.
    Idle,
    Unknown,
}
