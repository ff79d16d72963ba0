//! Readers that ask at the same time share a collection. Nobody gets numbers that are older than the question: who asks while a
//! collection is under way waits for the next one, together with all others who do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

/// What has been collected last, for as long as somebody uses it.
#[derive(Debug)]
pub(super) struct Collections<T> {
    /// How many have begun.
    begun: AtomicU64,
    last: Mutex<Last<T>>,
}

#[derive(Debug)]
struct Last<T> {
    number: u64,
    collected: Weak<T>,
}

impl<T> Default for Collections<T> {
    fn default() -> Self {
        let last = Last { number: 0, collected: Weak::new() };
        Self { begun: AtomicU64::default(), last: Mutex::new(last) }
    }
}

impl<T> Collections<T> {
    /// What `collect` gives, or what it has given to another reader, if that began after this question.
    pub(super) async fn share<E>(
        &self,
        collect: impl Future<Output = Result<Option<T>, E>>,
    ) -> Result<Option<Arc<T>>, E> {
        let before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.number > before
            && let Some(collected) = last.collected.upgrade()
        {
            return Ok(Some(collected));
        }
        last.number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let collected = collect.await?.map(Arc::new);
        last.collected = collected.as_ref().map(Arc::downgrade).unwrap_or_default();
        Ok(collected)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    /// A collection that ends when it is told to.
    struct Collector {
        begun: AtomicU64,
        end: Notify,
    }

    impl Collector {
        async fn collect(&self) -> Result<Option<u64>, Infallible> {
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            self.end.notified().await;
            Ok(Some(number))
        }
    }

    #[tokio::test]
    async fn who_asks_during_a_collection_shares_the_next() {
        let collections = Collections::default();
        let collector = Collector { begun: AtomicU64::default(), end: Notify::new() };
        let ask = || collections.share(collector.collect());
        let mut first = Box::pin(ask());
        assert!((&mut first).now_or_never().is_none(), "it is under way");
        let mut others = Box::pin(join_all([ask(), ask(), ask()]));
        assert!((&mut others).now_or_never().is_none(), "they wait");
        collector.end.notify_one();
        let first = first.await.expect("never fails");
        assert!((&mut others).now_or_never().is_none(), "the second is under way");
        collector.end.notify_one();
        let numbers: Vec<_> =
            others.await.into_iter().map(|answer| *answer.expect("never fails").expect("some")).collect();
        assert_eq!((first.as_deref(), numbers), (Some(&1), vec![2, 2, 2]));
    }

    #[tokio::test]
    async fn nothing_is_older_than_the_question() {
        let collections = Collections::default();
        let collector = Collector { begun: AtomicU64::default(), end: Notify::new() };
        collector.end.notify_one();
        let first = collections.share(collector.collect()).await.expect("never fails");
        collector.end.notify_one();
        let second = collections.share(collector.collect()).await.expect("never fails");
        assert_eq!((first.as_deref(), second.as_deref()), (Some(&1), Some(&2)));
    }

    #[tokio::test]
    async fn a_reader_that_leaves_stops_nobody() {
        let collections = Collections::default();
        let collector = Collector { begun: AtomicU64::default(), end: Notify::new() };
        let mut first = Box::pin(collections.share(collector.collect()));
        assert!((&mut first).now_or_never().is_none());
        drop(first);
        collector.end.notify_one();
        let next = collections.share(collector.collect()).await.expect("never fails");
        assert_eq!(next.as_deref(), Some(&2));
    }
}
