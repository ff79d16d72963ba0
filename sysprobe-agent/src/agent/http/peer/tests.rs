//! The life of a connection, with its time limits.

use super::*;

fn in_phase(phase: Phase) -> (Peer, Instant) {
    let now = Instant::now();
    (Peer(Mutex::new(State { phase, since: now })), now)
}

#[test]
fn a_reader_has_its_time_and_no_more() {
    let limits = [(Phase::Head, HEAD_WITHIN), (Phase::Idle, IDLE_AT_MOST), (Phase::Sending, TAKE_WITHIN)];
    for (phase, limit) in limits {
        let (peer, now) = in_phase(phase);
        assert!(!peer.close_overdue(now + limit.saturating_sub(Duration::from_millis(1))), "{phase:?}");
        assert!(peer.close_overdue(now + limit), "{phase:?}");
        assert!(!peer.asked(), "{phase:?}: what is closed answers no more");
    }
}

#[test]
fn an_answer_in_the_making_is_nobodys_to_close() {
    let (peer, now) = in_phase(Phase::Making);
    assert_eq!(peer.silent_since(), None);
    assert!(!peer.close_silent() && !peer.close_unasked());
    assert!(!peer.close_overdue(now + IDLE_AT_MOST * 10));
}

#[test]
fn an_answer_on_its_way_outlives_the_signal_to_stop() {
    let (peer, _) = in_phase(Phase::Sending);
    assert!(!peer.close_unasked());
    assert!(peer.close_silent(), "but who does not read it gives way to others");
}

#[test]
fn the_first_byte_of_a_request_sets_its_limit_and_later_ones_do_not() {
    let peer = Peer::new(Instant::now());
    let begun = peer.silent_since();
    peer.received();
    assert_eq!(peer.silent_since(), begun, "a head that drips in gains nothing");
    assert!(peer.asked());
    peer.flushed();
    assert_eq!(peer.state().phase, Phase::Making, "what is flushed before the answer is none");
    peer.answered();
    peer.flushed();
    assert_eq!(peer.state().phase, Phase::Idle);
    peer.received();
    assert_eq!(peer.state().phase, Phase::Head);
}
