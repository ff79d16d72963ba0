//! TCP: starts the BPF programs, has them scan all sockets when the agent is asked, and adds each cgroup's
//! counters to its workload's totals.

use std::io;

use sysprobe_common::shared;
use sysprobe_common::tcp::{Count, STORAGES, Sockets, TcpLoss, TcpStats, state};
use sysprobe_common::traffic::Family;

use crate::bpf::{Lanes, LoadError, Loaded, Loader, MappedArray, Plain, Running, Scan};
use crate::domain::slots::{self, Charge, Counters, SlotOwner, SlotTable, Slots};
use crate::domain::traits::{Domain, Start};
use crate::domain::{times, traffic};
use crate::host;
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::tcp::SLOTS;
use crate::probe::{self, ProgramSet, SOCKET_SCANS};
use crate::snapshot::{LostUpdates, PodTotals, SocketsSample, TcpSample, TcpTimes, WorkloadSample};
use crate::storage::Store;

/// The attached programs and their maps.
pub struct Tcp {
    loaded: Loaded,
    slots: Slots<TcpStats>,
    /// `None` if sockets are kept in a hash.
    socket_scan: Option<SocketScan>,
    /// By owner, as of the last complete pass.
    sockets: Vec<(SlotOwner, SocketsSample)>,
    losses: Lanes,
    store: Option<Store>,
}

/// The socket scan, and the maps that it writes.
struct SocketScan {
    /// One per slot.
    counts: MappedArray<Sockets>,
    /// The number of the pass, so that each socket is counted once.
    pass: MappedArray<u64>,
    scan: Scan,
}

impl Tcp {
    /// Resets the counts, and returns the scan that collects every socket's counters and counts the sockets.
    /// Only one pass may run at a time.
    pub fn begin_scan(&mut self) -> Option<Scan> {
        let SocketScan { counts, pass, scan } = self.socket_scan.as_mut()?;
        for slot in 0..counts.entries() {
            if counts.read(slot).is_some_and(|sockets| sockets != Sockets::NONE) {
                counts.write(slot, Sockets::NONE);
            }
        }
        pass.write(0, pass.read(0).unwrap_or(0) + 1);
        Some(scan.clone())
    }

    /// Takes over the counts of a complete pass.
    pub fn end_scan(&mut self) -> io::Result<()> {
        let Some(socket_scan) = &self.socket_scan else { return Ok(()) };
        self.slots.list()?;
        let of_slot = |slot: u32| socket_scan.counts.read(slot as usize).unwrap_or(Sockets::NONE);
        let counted = self.slots.all().map(|(owner, slot)| (owner, of_slot(slot)));
        let counted = counted.filter(|(_, sockets)| *sockets != Sockets::NONE);
        self.sockets = counted.map(|(owner, sockets)| (owner, sample(&sockets))).collect();
        Ok(())
    }

    /// The sockets by owner, as of the last complete pass.
    #[must_use]
    pub fn sockets(&self) -> &[(SlotOwner, SocketsSample)] {
        &self.sockets
    }
}

impl Domain for Tcp {
    fn slot_tables(&mut self) -> Vec<&mut dyn SlotTable> {
        vec![&mut self.slots]
    }

    fn losses(&self) -> Vec<LostUpdates> {
        slots::losses(Self::NAME, &self.losses, TcpLoss::ALL.map(TcpLoss::reason)).collect()
    }

    fn in_use(&self) -> Vec<(&'static str, u64)> {
        vec![self.slots.in_use()]
    }

    fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }
}

impl Start for Tcp {
    const NAME: &'static str = "tcp";

    fn start(
        loader: &Loader,
        set: &'static ProgramSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let has_scan = !probe::keeps_tasks_in_hash(set.mode);
        let mut loaded = loader.load(set, &candidate.globals, &plan.map_sizes(set))?;
        if has_scan && !SOCKET_SCANS.iter().any(|name| loaded.runs(name)) {
            let reason = loaded.left_out().collect::<Vec<_>>().join("; ");
            return Err(LoadError::Program { program: SOCKET_SCANS[0], reason });
        }
        let slots = Slots::new(&mut loaded, SLOTS, Shards::ONE)?;
        let counts = has_scan.then(|| loaded.map_array("TCP_SCAN")).transpose()?;
        let pass = has_scan.then(|| loaded.map_array("TCP_PASS")).transpose()?;
        let losses = loaded.map_lanes("TCP_LOSSES")?;
        let budget = (Self::NAME, "TCP_BUDGET");
        let store = Store::of_set(&mut loaded, set, budget, &plan.storage)?;
        if has_scan {
            loaded.gather("TCP_SOCKETS", &STORAGES)?;
        }
        loaded.attach()?;
        if has_scan {
            loader.share(shared::TCP_SOCKETS, loaded.map_descriptor("TCP_SOCKETS")?);
        }
        let scan = SOCKET_SCANS.iter().find_map(|name| loaded.scan(name));
        let socket_scan = match (counts, pass, scan) {
            (Some(counts), Some(pass), Some(scan)) => Some(SocketScan { counts, pass, scan }),
            _ => None,
        };
        Ok(Self { loaded, slots, socket_scan, sockets: Vec::new(), losses, store })
    }
}

impl Running for Tcp {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

// SAFETY: 64-bit and 32-bit integers, and arrays of them.
unsafe impl Plain for TcpStats {}

// SAFETY: as above.
unsafe impl Plain for Sockets {}

impl Counters for TcpStats {
    const ZERO: Self = Self::ZERO;

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        for (own, other) in self.traffic.iter_mut().zip(&other.traffic) {
            traffic::combine(own, other, wide);
        }
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            *own = wide(*own, *other);
        }
        for (own, other) in [
            (&mut self.srtt, &other.srtt),
            (&mut self.variance, &other.variance),
            (&mut self.connect, &other.connect),
        ] {
            times::combine(own, other, wide, narrow);
        }
    }
}

impl Charge for TcpStats {
    fn is_idle(&self) -> bool {
        *self == Self::ZERO
    }

    fn add_to(&self, workload: &mut WorkloadSample) {
        accumulate(workload.tcp.get_or_insert_default(), self);
    }

    fn add_to_pod(&self, pod: &mut PodTotals) {
        accumulate_times(&mut pod.tcp, self);
    }
}

/// Adds a slot's counters to a workload's totals.
fn accumulate(total: &mut TcpSample, gathered: &TcpStats) {
    traffic::accumulate(&mut total.ipv4, &gathered.traffic[Family::V4 as usize]);
    traffic::accumulate(&mut total.ipv6, &gathered.traffic[Family::V6 as usize]);
    let of = |count: Count| gathered.counts[count as usize];
    total.retransmitted_segments += of(Count::Retransmitted);
    total.retransmitted_syns += of(Count::RetransmittedSyns);
    total.out_of_order_segments += of(Count::OutOfOrder);
    total.accept_drops += of(Count::AcceptDrops);
    total.accept_overflows += of(Count::AcceptOverflows);
    total.window_limited_ns += of(Count::WindowLimited) * host::tick_ns();
    total.resets_sent += of(Count::ResetsSent);
    total.resets_received += of(Count::ResetsReceived);
    for (reason, count) in FAILURES {
        if of(count) > 0 {
            *total.connect_failures.entry(reason.to_owned()).or_default() += of(count);
        }
    }
    accumulate_times(&mut total.times, gathered);
}

/// Why a connection could not be made, by the values of the `reason` label.
const FAILURES: [(&str, Count); 4] = [
    ("refused", Count::ConnectRefused),
    ("timed_out", Count::ConnectTimedOut),
    ("unreachable", Count::ConnectUnreachable),
    ("aborted", Count::ConnectAborted),
];

/// The same for the histograms alone.
fn accumulate_times(total: &mut TcpTimes, gathered: &TcpStats) {
    times::accumulate(&mut total.srtt, &gathered.srtt);
    times::accumulate(&mut total.variance, &gathered.variance);
    times::accumulate(&mut total.connect, &gathered.connect);
}

fn sample(sockets: &Sockets) -> SocketsSample {
    let states = state::NAMES.iter().zip(&sockets.states).filter(|(_, count)| **count > 0);
    SocketsSample {
        by_state: states.map(|(name, count)| ((*name).to_owned(), u64::from(*count))).collect(),
        accept_queue: sockets.waiting,
        accept_queue_limit: sockets.limit,
        accept_queue_fullest: f64::from(sockets.fullest) / 1024.0,
    }
}
