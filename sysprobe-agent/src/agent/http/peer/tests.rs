//! The phases of a connection, with their time limits.

use super::*;

fn in_phase(phase: Phase) -> (Peer, Instant) {
    let now = Instant::now();
    let state = State { phase, since: now, taken: now, answers: 0, is_unread: false };
    (Peer(Mutex::new(state)), now)
}

#[test]
fn a_reader_has_its_time_and_no_more() {
    let limits = [
        (Phase::Head, HEAD_WITHIN),
        (Phase::Idle, IDLE_AT_MOST),
        (Phase::Sending, TAKE_WITHIN),
        (Phase::Flushing, TAKE_WITHIN),
    ];
    for (phase, limit) in limits {
        let (peer, now) = in_phase(phase);
        assert!(!peer.close_overdue(now + limit.saturating_sub(Duration::from_millis(1))), "{phase:?}");
        assert!(peer.close_overdue(now + limit), "{phase:?}");
        assert!(!peer.asked(), "{phase:?}: what is closed answers no more");
    }
}

#[test]
fn an_answer_in_the_making_has_no_limit_of_its_readers() {
    let (peer, now) = in_phase(Phase::Making);
    assert_eq!(peer.standing(now + IDLE_AT_MOST).activity, Activity::Busy);
    assert!(!peer.close_unasked());
    assert!(!peer.close_overdue(now + IDLE_AT_MOST * 10));
}

#[test]
fn an_answer_on_its_way_outlives_the_signal_to_stop() {
    for phase in [Phase::Sending, Phase::Flushing] {
        assert!(!in_phase(phase).0.close_unasked(), "{phase:?}");
    }
    for phase in [Phase::Head, Phase::Idle] {
        assert!(in_phase(phase).0.close_unasked(), "{phase:?}");
    }
}

#[test]
fn a_reader_that_takes_nothing_stalls_and_one_that_takes_a_little_does_not() {
    let (peer, now) = in_phase(Phase::Sending);
    assert_eq!(peer.standing(now + STALLED_AFTER / 2).activity, Activity::Busy);
    assert_eq!(peer.standing(now + STALLED_AFTER).activity, Activity::Stalled);
    peer.took();
    assert_eq!(peer.standing(now + STALLED_AFTER / 2).activity, Activity::Busy);
    assert!(!peer.close_while(Activity::Stalled, now + STALLED_AFTER / 2), "it goes on meanwhile");
    assert!(peer.close_while(Activity::Stalled, Instant::now() + STALLED_AFTER));
}

#[test]
fn the_first_byte_of_a_request_sets_its_limit_and_later_ones_do_not() {
    let peer = Peer::new(Instant::now());
    let begun = peer.state().since;
    peer.received();
    assert_eq!(peer.state().since, begun, "a head that drips in gains nothing");
    assert!(peer.asked());
    peer.flushed();
    assert_eq!(peer.state().phase, Phase::Making, "what is flushed before the answer is none");
    peer.answered();
    peer.flushed();
    assert_eq!(peer.state().phase, Phase::Sending, "a part of the answer");
    let begun = peer.state().since;
    peer.handed_over();
    let state = *peer.state();
    assert_eq!((state.phase, state.since), (Phase::Flushing, begun), "its time goes on");
    peer.flushed();
    let state = *peer.state();
    assert_eq!((state.phase, state.answers), (Phase::Idle, 1));
    peer.received();
    assert_eq!(peer.state().phase, Phase::Head);
}
