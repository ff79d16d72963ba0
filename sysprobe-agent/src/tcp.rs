//! TCP: starts the programs, has them look at all sockets before a reading, and adds what each cgroup gathered to its
//! workload's totals.

use sysprobe_common::tcp::{Count, Sockets, TcpLoss, TcpStats, state};
use sysprobe_common::traffic::Family;

use crate::bpf::{LoadError, Loaded, Loader, MappedArray, Running};
use crate::net::{add_traffic, combine_traffic};
use crate::plan::{Candidate, Plan, Shards};
use crate::probe::{self, TierSet};
use crate::slots::{self, Counters, Names, Owner, Slots};
use crate::snapshot::{LostUpdates, SocketsSample, TcpSample, TcpTimes};
use crate::{host, times};

/// The attached programs and their maps.
pub struct Tcp {
    loaded: Loaded,
    slots: Slots<TcpStats>,
    /// What each slot's owner had at the last census; a hash of sockets has none.
    census: Option<MappedArray<Sockets>>,
    losses: MappedArray<u64>,
}

const MAPS: Names = Names { stats: "TCP_STATS", known: "TCP_SLOTS", free: "TCP_FREE" };

impl Tcp {
    /// Loads and attaches; from here on what sockets gather is booked.
    pub fn start(
        loader: &Loader,
        set: &'static TierSet,
        candidate: &Candidate,
        plan: &Plan,
    ) -> Result<Self, LoadError> {
        let mut sizes = MAPS.sizes(plan.slots, Shards::ONE).to_vec();
        let has_census = !probe::keeps_tasks_in_hash(set.tier);
        sizes.push(if has_census { ("TCP_CENSUS", plan.slots) } else { ("TCP_SOCKETS", plan.tasks) });
        let mut loaded = loader.load(set, &candidate.globals, &sizes)?;
        let slots = Slots::new(&mut loaded, MAPS, plan.slots, Shards::ONE)?;
        let census = has_census.then(|| loaded.map_array("TCP_CENSUS")).transpose()?;
        let losses = loaded.map_array("TCP_LOSSES")?;
        loaded.attach()?;
        Ok(Self { loaded, slots, census, losses })
    }

    /// Books what every socket has gathered, and counts them anew.
    pub fn take_census(&mut self) -> Result<(), LoadError> {
        let Some(census) = &mut self.census else { return Ok(()) };
        for slot in 0..census.entries() {
            if census.read(slot).is_some_and(|sockets| sockets != Sockets::NONE) {
                census.write(slot, Sockets::NONE);
            }
        }
        self.loaded.walk("tcp_census")
    }

    /// The sockets that there were at the last census, by owner.
    pub fn sockets(&self) -> impl Iterator<Item = (Owner, SocketsSample)> {
        self.census.iter().flat_map(|census| {
            let of_slot = |slot: u32| census.read(slot as usize).unwrap_or(Sockets::NONE);
            self.slots.all().map(move |(owner, slot)| (owner, sample(&of_slot(slot))))
        })
    }

    pub const fn slots(&mut self) -> &mut Slots<TcpStats> {
        &mut self.slots
    }

    pub fn losses(&self) -> impl Iterator<Item = LostUpdates> {
        slots::losses("tcp", &self.losses, TcpLoss::ALL.map(TcpLoss::reason))
    }

    /// How many slots there were when they were last listed.
    #[must_use]
    pub const fn slots_in_use(&self) -> u64 {
        self.slots.in_use()
    }
}

impl Running for Tcp {
    fn loaded(&self) -> &Loaded {
        &self.loaded
    }
}

impl Counters for TcpStats {
    const ZERO: Self = Self::ZERO;

    fn combine(&mut self, other: &Self, wide: fn(u64, u64) -> u64, narrow: fn(u32, u32) -> u32) {
        for (own, other) in self.traffic.iter_mut().zip(&other.traffic) {
            combine_traffic(own, other, wide);
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

/// Adds what was gathered to a workload's totals.
pub fn accumulate(total: &mut TcpSample, gathered: &TcpStats) {
    add_traffic(&mut total.ipv4, &gathered.traffic[Family::V4 as usize]);
    add_traffic(&mut total.ipv6, &gathered.traffic[Family::V6 as usize]);
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

/// The same of the histograms alone.
pub fn accumulate_times(total: &mut TcpTimes, gathered: &TcpStats) {
    times::accumulate(&mut total.srtt, &gathered.srtt);
    times::accumulate(&mut total.variance, &gathered.variance);
    times::accumulate(&mut total.connect, &gathered.connect);
}

/// Whether anything was gathered at all.
#[must_use]
pub fn is_idle(gathered: &TcpStats) -> bool {
    *gathered == TcpStats::ZERO
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
