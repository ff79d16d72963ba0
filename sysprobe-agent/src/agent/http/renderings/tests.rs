//! Renderings that end when a test lets them.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::join_all;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::*;

#[derive(Default)]
struct Source {
    begun: AtomicUsize,
    under_way: AtomicUsize,
    most: AtomicUsize,
    end: Notify,
}

impl Source {
    async fn make(self: Arc<Self>) -> usize {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        self.end.notified().await;
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        number
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

const WITHIN: Duration = Duration::from_secs(9);

type Three = Arc<Renderings<usize, 3>>;

fn ask(
    renderings: &Three,
    source: &Arc<Source>,
    form: usize,
) -> impl Future<Output = Result<usize, Late>> + use<> {
    let (renderings, source) = (Arc::clone(renderings), Arc::clone(source));
    async move { renderings.share(form, WITHIN, move || source.make()).await }
}

async fn takes(length: Duration) -> usize {
    sleep(length).await;
    0
}

/// Lets all tasks proceed that can.
async fn settle() {
    sleep(Duration::from_millis(10)).await;
}

#[tokio::test(start_paused = true)]
async fn all_that_ask_meanwhile_share_one_rendering_that_is_younger_than_their_question() {
    let (renderings, source) = (Three::default(), Arc::new(Source::default()));
    let first = tokio::spawn(ask(&renderings, &source, 0));
    settle().await;
    let others: Vec<_> = (0..32).map(|_| tokio::spawn(ask(&renderings, &source, 0))).collect();
    settle().await;
    assert_eq!(source.begun(), 1);
    source.end.notify_one();
    settle().await;
    assert_eq!(source.begun(), 2, "one for all the others");
    source.end.notify_one();
    assert_eq!(first.await.expect("no panic"), Ok(1));
    for answer in join_all(others).await {
        assert_eq!(answer.expect("no panic"), Ok(2));
    }
    source.end.notify_one();
    assert_eq!(ask(&renderings, &source, 0).await, Ok(3), "nothing is older than its question");
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_start_no_rendering_beside_the_one_under_way() {
    let (renderings, source) = (Three::default(), Arc::new(Source::default()));
    for _ in 0..100 {
        let mut client = Box::pin(ask(&renderings, &source, 0));
        assert!((&mut client).now_or_never().is_none());
        settle().await;
        drop(client);
        yield_now().await;
    }
    assert_eq!((source.begun(), source.most.load(Ordering::SeqCst)), (1, 1));
    source.end.notify_one();
    settle().await;
    assert_eq!(source.begun(), 1, "what all have left is not made");
    source.end.notify_one();
    assert_eq!(ask(&renderings, &source, 0).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn two_renderings_are_under_way_at_most() {
    let (renderings, source) = (Three::default(), Arc::new(Source::default()));
    let clients: Vec<_> = (0..30).map(|number| tokio::spawn(ask(&renderings, &source, number % 3))).collect();
    settle().await;
    assert_eq!(source.under_way.load(Ordering::SeqCst), 2);
    for _ in 0..3 {
        source.end.notify_one();
        settle().await;
    }
    for answer in join_all(clients).await {
        assert!(answer.expect("no panic").is_ok());
    }
    assert_eq!((source.begun(), source.most.load(Ordering::SeqCst)), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_rendering_that_hangs_is_waited_for_in_bounded_time() {
    let (renderings, source) = (Three::default(), Arc::new(Source::default()));
    let begun = Instant::now();
    assert_eq!(ask(&renderings, &source, 0).await, Err(Late));
    assert_eq!(ask(&renderings, &source, 0).await, Err(Late));
    assert!(begun.elapsed() <= 2 * WITHIN + Duration::from_millis(10), "{:?}", begun.elapsed());
    assert_eq!(source.begun(), 1);
    source.end.notify_one();
    settle().await;
    source.end.notify_one();
    assert!(ask(&renderings, &source, 0).await.is_ok(), "it gets on when it can");
}

#[tokio::test(start_paused = true)]
async fn readers_that_ask_without_a_break_take_a_quarter_of_a_cpu() {
    for length in [Duration::from_millis(100), Duration::from_millis(300)] {
        let renderings = Three::default();
        let (begun, mut busy) = (Instant::now(), Duration::ZERO);
        while begun.elapsed() < Duration::from_secs(60) {
            assert_eq!(renderings.share(0, WITHIN, move || takes(length)).await, Ok(0));
            busy += length;
        }
        // A quarter of 60 seconds, and what was saved.
        let expected = Duration::from_secs(15)..=Duration::from_secs(18);
        assert!(expected.contains(&busy), "{busy:?} in renderings of {length:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_rendering_is_followed_by_the_longest_pause() {
    let renderings = Three::default();
    let slow = || takes(Duration::from_secs(3));
    assert_eq!(renderings.share(0, WITHIN, slow).await, Ok(0));
    let begun = Instant::now();
    assert_eq!(renderings.share(0, WITHIN, slow).await, Ok(0));
    assert_eq!(begun.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn after_a_rest_no_reader_waits() {
    let renderings = Three::default();
    let tenth = || takes(Duration::from_millis(100));
    for _ in 0..100 {
        assert_eq!(renderings.share(0, WITHIN, tenth).await, Ok(0));
    }
    sleep(Duration::from_secs(8)).await;
    let begun = Instant::now();
    for _ in 0..10 {
        assert_eq!(renderings.share(0, WITHIN, tenth).await, Ok(0));
    }
    assert!(begun.elapsed() < Duration::from_millis(1_200), "{:?}", begun.elapsed());
}
