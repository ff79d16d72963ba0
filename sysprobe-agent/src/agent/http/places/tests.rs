//! Which connections give way to which.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;

const LIMITS: Limits = Limits { room: 4, places: 4, per_address: 3 };

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

/// A connection whose task runs until it is aborted.
struct Connection {
    id: Id,
    peer: Arc<Peer>,
}

/// A connection that was found to be silent.
fn admit(places: &Places, from: u8) -> Connection {
    let connection = admit_unread(places, from);
    connection.peer.found_silent();
    connection
}

fn admit_unread(places: &Places, from: u8) -> Connection {
    let peer = Arc::new(Peer::new(Instant::now()));
    let mut id = None;
    places.admit(Some(address(from)), Arc::clone(&peer), || {
        let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
        id = Some(task.id());
        task
    });
    Connection { id: id.expect("there is room"), peer }
}

/// A connection that has asked for something large and got a place.
fn placed(places: &Places, from: u8) -> Connection {
    let connection = admit(places, from);
    assert!(connection.peer.asked() && places.take(connection.id));
    connection
}

impl Connection {
    fn is_open(&self, places: &Places) -> bool {
        places.members().contains_key(&self.id)
    }

    /// Its reader took the whole answer.
    fn answered(self) -> Self {
        self.peer.answered();
        self.peer.handed_over();
        // The stream is flushed after the last byte.
        let stream = super::super::peer::Watched::new(tokio::io::sink(), Arc::clone(&self.peer));
        let mut stream = Box::pin(stream);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(tokio::io::AsyncWrite::poll_flush(stream.as_mut(), &mut context).is_ready());
        self
    }
}

#[tokio::test(start_paused = true)]
async fn silent_connections_push_out_only_silent_ones_and_the_oldest_first() {
    let places = Places::new(LIMITS);
    let (kept, answering) = (placed(&places, 1).answered(), placed(&places, 1));
    let probe = admit(&places, 1);
    assert!(probe.peer.asked(), "it is being answered in the room");
    let mut silent = Vec::new();
    for _ in 0..10 {
        tokio::time::advance(Duration::from_millis(1)).await;
        silent.push(admit(&places, 1));
    }
    assert!(kept.is_open(&places) && answering.is_open(&places) && probe.is_open(&places));
    let open: Vec<_> = silent.iter().map(|connection| connection.is_open(&places)).collect();
    assert_eq!(open, [[false; 7].as_slice(), &[true; 3]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_read_once_before_another_pushes_it_out() {
    let places = Places::new(LIMITS);
    let waiting: Vec<_> = (0..4).map(|_| admit_unread(&places, 1)).collect();
    assert!(!places.have_room(), "the next one waits in the kernel");
    waiting[2].peer.found_silent();
    assert!(places.have_room());
    admit_unread(&places, 1);
    let open: Vec<_> = waiting.iter().map(|connection| connection.is_open(&places)).collect();
    assert_eq!(open, [true, true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn the_address_with_most_silent_connections_loses_them_first() {
    let places = Places::new(LIMITS);
    let kubelet = admit(&places, 1);
    for _ in 0..100 {
        tokio::time::advance(Duration::from_millis(1)).await;
        admit(&places, 2);
    }
    assert!(kubelet.is_open(&places), "though it has been silent longest");
}

#[tokio::test(start_paused = true)]
async fn an_address_has_its_share_of_places_and_no_more() {
    let places = Places::new(LIMITS);
    let busy: Vec<_> = (0..3).map(|_| placed(&places, 1)).collect();
    let fourth = admit(&places, 1);
    assert!(fourth.peer.asked() && !places.take(fourth.id), "its own are all being answered");
    assert!(fourth.is_open(&places), "so that it can be told");
    let other = placed(&places, 2);
    let third = placed(&places, 3);
    assert!(other.is_open(&places) && third.is_open(&places));
    let left = busy.iter().filter(|connection| connection.is_open(&places)).count();
    assert_eq!(left, 2, "what has most gives way to what has none, busy or not");
}

#[tokio::test(start_paused = true)]
async fn of_one_address_only_a_reader_that_stalls_gives_way() {
    let places = Places::new(LIMITS);
    let prometheus = placed(&places, 1).answered();
    let (slow, other) = (placed(&places, 1), placed(&places, 1));
    slow.peer.answered();
    let early = admit(&places, 1);
    assert!(early.peer.asked() && !places.take(early.id), "it has just begun to read");
    tokio::time::advance(Duration::from_millis(300)).await;
    let newer = placed(&places, 1);
    assert!(!slow.is_open(&places) && newer.is_open(&places) && other.is_open(&places));
    let newest = admit(&places, 1);
    assert!(newest.peer.asked() && !places.take(newest.id) && prometheus.is_open(&places));
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_gives_way_to_an_address_with_fewer_the_one_answered_least_often_first() {
    let places = Places::new(LIMITS);
    let often = placed(&places, 1).answered();
    assert!(often.peer.asked());
    let often = often.answered();
    let once: Vec<_> = (2..5).map(|number| placed(&places, number).answered()).collect();
    let newcomer = placed(&places, 9);
    let left = once.iter().filter(|connection| connection.is_open(&places)).count();
    assert!(often.is_open(&places) && newcomer.is_open(&places));
    assert_eq!(left, 2);
}

#[tokio::test(start_paused = true)]
async fn a_connection_keeps_its_place_from_request_to_request() {
    let places = Places::new(LIMITS);
    let kept = placed(&places, 1).answered();
    for _ in 0..10 {
        assert!(kept.peer.asked() && places.take(kept.id));
    }
    assert_eq!(places.members().len(), 1);
    places.forget(kept.id);
    assert!(!places.take(kept.id), "it has gone");
}
