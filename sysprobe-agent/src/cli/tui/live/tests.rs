//! When a live view asks for samples.

use super::*;
use crate::cli::fixture::snapshot;

const SECOND: Duration = Duration::from_secs(1);

/// Reports when it was asked, and when it was told that it would be asked again.
struct Asked {
    again: Option<Instant>,
    asked: mpsc::UnboundedSender<(Instant, Option<Instant>)>,
}

impl Source for Asked {
    async fn next(&mut self) -> anyhow::Result<Snapshot> {
        self.asked.send((Instant::now(), self.again))?;
        Ok(snapshot(0, Vec::new()))
    }

    fn will_ask_again_in(&mut self, interval: Duration) {
        self.again = Some(Instant::now() + interval);
    }

    fn describe(&self) -> String {
        String::new()
    }
}

#[tokio::test(start_paused = true)]
async fn a_longer_interval_begins_with_the_next_sample_and_a_shorter_one_at_once() {
    let (asked, mut times) = mpsc::unbounded_channel();
    let (samples, mut events) = mpsc::channel(1);
    let (interval, intervals) = watch::channel(2 * SECOND);
    let start = Instant::now();
    let mut source = Asked { again: None, asked };
    let sampling = sample(&mut source, &samples, intervals);
    let reading = async {
        let mut promised = None;
        // After how many seconds a sample is taken, and the interval that is chosen after it.
        for (seconds, chosen) in [(1, 2), (2, 60), (2, 60), (60, 5), (5, 5)] {
            let before = Instant::now();
            let (at, again) = times.recv().await.expect("a sample");
            assert_eq!(at.duration_since(before.max(start)), seconds * SECOND);
            assert!(promised.is_none_or(|promised| at <= promised), "it measures until then");
            promised = again;
            events.recv().await.expect("a sample");
            interval.send_replace(chosen * SECOND);
        }
    };
    tokio::select! {
        () = sampling => unreachable!("the receiver is there"),
        () = reading => {}
    }
}
