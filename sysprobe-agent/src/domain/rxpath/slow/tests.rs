//! Decoding of records.

use sysprobe_common::rxpath::slow::RUN_INTERVALS_TOLD;

use super::*;

const OFFSET: u64 = 1000;

/// A request that passed its points at these timestamps.
fn slow(timestamps: [u64; 7]) -> Slow {
    Slow {
        timestamps,
        owner: 7,
        thread: 1,
        name: [0; 16],
        peer: [0; 4],
        peer_port: 0,
        own_port: 0,
        protocol: 0,
        points: 0x7f,
        cpu: 0,
        waited_from: 0,
        waited_to: 0,
        clock_offset: OFFSET,
        run_intervals: [RunInterval::NONE; RUN_INTERVALS_TOLD],
    }
}

fn interval(until: u64, occupant: u64) -> RunInterval {
    RunInterval { until: until - OFFSET, occupant, ..RunInterval::NONE }
}

#[test]
fn a_point_is_never_before_another_and_one_that_cannot_be_seen_is_none() {
    let told = Slow { points: 0x7f & !Point::Ip.bit(), ..slow([10, 0, 30, 25, 40, 50, 60]) };
    let passed: Vec<_> = passed(&told).map(|(_, timestamp)| timestamp).collect();
    assert_eq!(passed, [10, 30, 30, 40, 50, 60]);
    assert_eq!(took(&told), 50);
}

#[test]
fn who_had_the_cpu_is_cut_to_the_time_that_is_asked_for() {
    let mut told = slow([0; 7]);
    told.run_intervals[0] = interval(2400, 3);
    told.run_intervals[1] = interval(2300, 2);
    told.run_intervals[2] = interval(2200, 1);
    assert_eq!(had(&mut told, 2250, 2350), [(2, 50), (3, 50)]);
    assert_eq!(had(&mut told, 2100, 2600), [(2, 100), (3, 100)], "the beginning of the oldest is not known");
    assert_eq!(had(&mut told, 2500, 2600), []);
}

/// The occupants if its reader waited between these timestamps.
fn had(told: &mut Slow, from: u64, to: u64) -> Vec<(u64, u64)> {
    (told.waited_from, told.waited_to) = (from, to);
    occupants(told).collect()
}

#[test]
fn what_interrupts_took_is_theirs_and_what_was_before_the_data_is_nobodys() {
    let mut told = Slow { waited_from: 2000, waited_to: 2400, ..slow([0, 0, 0, 2200, 0, 0, 0]) };
    told.run_intervals[0] = RunInterval { interrupted_share: WHOLE_SHARE / 4, ..interval(2400, 3) };
    told.run_intervals[1] = interval(2000, 2);
    let occupants: Vec<_> = occupants(&told).collect();
    assert_eq!(occupants, [(3, 150), (SOFTIRQS, 50)]);
}

#[test]
fn a_lease_ends_and_the_lowest_of_several_counts() {
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    let mut leases = Leases::default();
    assert_eq!(leases.lowest(start), None);
    leases.extend(10, start + 5 * second);
    leases.extend(3, start + 2 * second);
    leases.extend(10, start + second);
    assert_eq!(leases.lowest(start), Some(3));
    assert_eq!(leases.lowest(start + 3 * second), Some(10), "what is asked for again lasts at least as long");
    assert_eq!(leases.lowest(start + 5 * second), None);
    for from in 1..100 {
        leases.extend(from, start + Duration::from_secs(from));
    }
    assert_eq!((leases.0.len(), leases.lowest(start)), (Leases::MOST, Some(84)));
}

#[test]
fn a_record_of_another_length_is_none() {
    assert!(decode(&[0; 8]).is_none());
    let bytes = [0; size_of::<Slow>()];
    assert_eq!(decode(&bytes).map(|slow| slow.owner), Some(0));
}
