//! Which reads repeat the one before, and who has the element.

use super::{BUSY_READS, KEPT_PERIODS, PERIOD_BITS, READERS, Reader};

const PERIOD: u64 = 1 << PERIOD_BITS;
const FIRST: Reader = Reader::new(1, 2, (3, 4), 5 * PERIOD);

fn busy() -> Reader {
    (1..BUSY_READS).fold(FIRST, |last, _| FIRST.after(&last))
}

fn later(socket: u64, periods: i32) -> Reader {
    Reader::new(socket, 2, (9, 4), PERIOD * u64::try_from(5 + periods).unwrap())
}

#[test]
fn only_the_position_of_a_repeated_read_may_differ() {
    assert!(FIRST.repeats_in(&Reader::new(1, 2, (3, 400), 6 * PERIOD - 1)));
    for other in [(9, 2, 3, 5), (1, 9, 3, 5), (1, 2, 9, 5), (1, 2, 3, 6), (1, 2, 3, 4)] {
        let (socket, css_set, connection, period) = other;
        let next = Reader::new(socket, css_set, (connection, 4), period * PERIOD);
        assert!(!FIRST.repeats_in(&next), "{other:?}");
    }
}

#[test]
fn only_a_busy_connections_position_is_unrecorded() {
    let next = Reader::new(1, 7, (3, 400), 6 * PERIOD);
    let mut last = FIRST;
    for _ in 1..BUSY_READS {
        assert!(!last.is_busy());
        assert_eq!(last.unrecorded(&next), None);
        last = FIRST.after(&last);
    }
    assert!(last.is_busy());
    assert_eq!(last.unrecorded(&next), Some(4));
    assert_eq!(last.unrecorded(&Reader::new(1, 2, (9, 400), 5 * PERIOD)), None, "another connection");
    assert_eq!(last.unrecorded(&Reader::new(8, 2, (3, 400), 5 * PERIOD)), None, "another socket");
    assert!(next.after(&last).is_busy(), "it stays busy");
}

#[test]
fn a_busy_connection_keeps_its_element_for_some_periods() {
    assert!(FIRST.gives_way_to(&later(7, 0)), "it was not busy");
    for (periods, gives_way) in [(-1, false), (0, false), (KEPT_PERIODS - 1, false), (KEPT_PERIODS, true)] {
        assert_eq!(busy().gives_way_to(&later(7, periods)), gives_way, "{periods}");
    }
    assert!(busy().gives_way_to(&later(1, 0)), "a new connection at the same address");
    assert!(Reader::NONE.gives_way_to(&later(7, 0)));
}

#[test]
fn the_highest_bits_of_a_key_are_its_place() {
    assert_eq!([Reader::place(0), Reader::place(u64::MAX)], [0, READERS - 1]);
}
