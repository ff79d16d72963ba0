//! Two snapshots of an agent with a few programs, for the tests of this command.

use crate::cli::fixture::snapshot;
use crate::snapshot::{LostUpdates, MapSample, Measuring, ProgramSample, Snapshot};

fn program(program: &str, domain: &str, hook: &str, [runs, run_ns, missed]: [u64; 3]) -> ProgramSample {
    let own = str::to_owned;
    ProgramSample { program: own(program), domain: own(domain), hook: own(hook), runs, run_ns, missed }
}

fn map(map: &str, entries: Option<u64>, capacity: u64, bytes: u64) -> MapSample {
    MapSample { map: map.to_owned(), entries, capacity, bytes }
}

fn lost(domain: &str, reason: &str, count: u64) -> LostUpdates {
    LostUpdates { domain: domain.to_owned(), reason: reason.to_owned(), count }
}

fn at(seconds: u64, switches: [u64; 3], reads: [u64; 3], ring_full: u64) -> Snapshot {
    let mut snapshot = snapshot(seconds, Vec::new());
    let agent = &mut snapshot.agent;
    agent.measuring = Measuring::On;
    agent.collect_ns = 3_210_000;
    agent.programs = vec![
        program("sched_switch_tp", "sched", "tp_btf/sched_switch", switches),
        program("rxpath_adjust_x", "rxpath", "tp_btf/tcp_rcv_space_adjust", reads),
        program("sched_flush", "sched", "raw_tp/on demand", [0; 3]),
    ];
    agent.maps =
        vec![map("sched_stats", None, 4096, 12_345_678), map("sched_interference", Some(900), 1000, 65_536)];
    agent.lost_updates = vec![lost("cgroup", "ring_buffer_full", ring_full), lost("sched", "no_slot", 0)];
    snapshot
}

/// A window of two seconds.
pub(super) fn window() -> (Snapshot, Snapshot) {
    (
        at(10, [1000, 100_000, 1], [50, 20_000, 0], 7),
        at(12, [21_000, 3_100_000, 4], [40_050, 8_020_000, 0], 9),
    )
}
