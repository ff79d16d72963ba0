//! Individual slow requests with the names of their workloads, for readers that ask for them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use sysprobe_common::cgroup::KERNEL;
use sysprobe_common::rxpath::slow::Slow;
use sysprobe_common::rxpath::{Point, Protocol};
use sysprobe_common::sched::timeline::{IDLE, SOFTIRQS};

use super::Engine;
use super::charging::Owners;
use crate::domain::rxpath::{self, slow};
use crate::domain::slots::SlotOwner;
use crate::snapshot::{Occupant, SlowRequest, SlowSample, Who, Workload};

impl Engine {
    /// Recent slow requests, including those that arrived after the previous query. `None` if the receive
    /// path is not watched.
    pub(super) fn slow(&mut self, from_ns: u64, lease: Duration) -> Option<SlowSample> {
        let rxpath = self.bpf_domains.rxpath()?;
        rxpath.slow().ask(from_ns, lease, Instant::now());
        let lost = rxpath.slow_lost();
        let owners = Owners::default();
        let attribution = &self.attribution;
        let named = |one: &Slow| request(one, |owner| owners.of(owner, attribution).workload.clone());
        let requests = rxpath.slow().recent(from_ns).filter_map(named).collect();
        Some(SlowSample { from_ns, lost, requests })
    }
}

/// Resolves names. `None` for a protocol that this version does not know.
fn request(slow: &Slow, workload_of: impl Fn(SlotOwner) -> Workload + Copy) -> Option<SlowRequest> {
    let protocol = Protocol::ALL.into_iter().find(|protocol| *protocol as u32 == slow.protocol)?;
    let passed: Vec<_> = slow::passed(slow).collect();
    let stage = |pair: &[(Point, u64)]| {
        let [(from, begun), (to, ended)] = [pair[0], pair[1]];
        (rxpath::stage_name(from, to, protocol), ended - begun)
    };
    Some(SlowRequest {
        workload: workload_of(SlotOwner::of_number(slow.owner)),
        read_ns: slow.timestamps[Point::Read as usize],
        took_ns: slow::took(slow),
        protocol: protocol.name().to_owned(),
        peer: peer(slow),
        peer_port: slow.peer_port,
        port: slow.own_port,
        pid: halves(slow.thread).0,
        tid: halves(slow.thread).1,
        thread: text(&slow.name),
        stages: passed.windows(2).map(stage).collect(),
        occupants: occupants(slow, workload_of),
    })
}

/// The occupants of the CPU during the reader's last wait for it, the longest first.
fn occupants(slow: &Slow, workload_of: impl Fn(SlotOwner) -> Workload) -> Vec<Occupant> {
    let who = |occupant: u64| match occupant {
        IDLE => Who::Idle,
        SOFTIRQS => Who::Interrupt,
        KERNEL => Who::Kernel,
        0 => Who::Unknown,
        id => Who::Workload(workload_of(SlotOwner::of_number(id)).as_culprit()),
    };
    let mut sums = BTreeMap::new();
    for (occupant, ns) in slow::occupants(slow) {
        *sums.entry(who(occupant)).or_default() += ns;
    }
    let mut occupants: Vec<_> = sums.into_iter().map(|(who, ns)| Occupant { who, ns }).collect();
    occupants.sort_by_key(|occupant| std::cmp::Reverse(occupant.ns));
    occupants
}

fn peer(slow: &Slow) -> Option<IpAddr> {
    let quarters = slow.peer.map(u32::to_ne_bytes);
    let address: [u8; 16] = quarters.as_flattened().try_into().ok()?;
    let address = Ipv6Addr::from(address);
    (!address.is_unspecified()).then(|| address.to_canonical())
}

/// Splits into process and thread ID.
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn halves(thread: u64) -> (u32, u32) {
    ((thread >> 32) as u32, thread as u32)
}

/// A thread's name, which programs choose freely.
fn text(name: &[u8]) -> String {
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..length]).into_owned()
}

#[cfg(test)]
mod tests;
