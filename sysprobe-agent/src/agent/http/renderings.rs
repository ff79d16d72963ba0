//! Shared renderings. Requests start at most one more rendering of each format after the one in progress, and
//! two run at a time in all. The work belongs to the exporter, not to the request, so a client that leaves
//! neither stops a rendering nor starts another.
//!
//! No reader gets numbers that are older than its request: a request that comes during a rendering waits for
//! the next one, together with all others that do. Back-to-back renderings take a quarter of a CPU, unless
//! a single one takes long (`LONGEST_PAUSE`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// Renderings at a time: each has a snapshot and the largest family in memory. One reads maps and files while
/// the other is written.
const UNDER_WAY: usize = 2;
/// Renderings in `FORMS` formats.
#[derive(Debug)]
pub(super) struct Renderings<T, const FORMS: usize> {
    forms: [Form<T>; FORMS],
    under_way: Semaphore,
    budget: Mutex<Budget>,
}

#[derive(Debug)]
struct Form<T> {
    /// Requested, and not begun.
    ordered: Mutex<Option<watch::Receiver<Option<T>>>>,
    /// Held by the rendering in progress.
    turn: tokio::sync::Mutex<()>,
}

/// The rendering took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late;

impl<T, const FORMS: usize> Default for Renderings<T, FORMS> {
    fn default() -> Self {
        let form = |_| Form { ordered: Mutex::default(), turn: tokio::sync::Mutex::default() };
        Self {
            forms: std::array::from_fn(form),
            under_way: Semaphore::new(UNDER_WAY),
            budget: Mutex::new(Budget::new(Instant::now())),
        }
    }
}

impl<T: Clone + Send + Sync + 'static, const FORMS: usize> Renderings<T, FORMS> {
    /// The result of `make`, or of another request's rendering that has not begun yet.
    pub(super) async fn share<F: Future<Output = T> + Send>(
        self: &Arc<Self>,
        form: usize,
        within: Duration,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T, Late> {
        let mut rendering = self.join_or_order(form, make);
        let made = timeout(within, rendering.wait_for(Option::is_some)).await;
        made.ok().and_then(Result::ok).and_then(|made| made.clone()).ok_or(Late)
    }

    fn join_or_order<F: Future<Output = T> + Send>(
        self: &Arc<Self>,
        form: usize,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> watch::Receiver<Option<T>> {
        let mut ordered = self.forms[form].ordered();
        if let Some(rendering) = &*ordered {
            return rendering.clone();
        }
        let (sender, receiver) = watch::channel(None);
        *ordered = Some(receiver.clone());
        let renderings = Arc::clone(self);
        tokio::spawn(async move { renderings.make(form, make, sender).await });
        receiver
    }

    async fn make<F: Future<Output = T>>(
        &self,
        form: usize,
        make: impl FnOnce() -> F,
        rendering: watch::Sender<Option<T>>,
    ) {
        let form = &self.forms[form];
        let _turn = form.turn.lock().await;
        let _place = self.under_way.acquire().await;
        let pause = self.budget().pause(Instant::now());
        sleep(pause).await;
        // From here on, a request waits for the next rendering.
        drop(form.ordered().take());
        if rendering.is_closed() {
            // All its clients have left.
            return;
        }
        let begun = Instant::now();
        let made = make().await;
        self.budget().spend(begun.elapsed(), Instant::now());
        rendering.send_replace(Some(made));
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Form<T> {
    fn ordered(&self) -> MutexGuard<'_, Option<watch::Receiver<Option<T>>>> {
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A budget of time for renderings: it is refilled at a rate, is capped, and may be overdrawn by the
/// rendering in progress.
#[derive(Debug)]
struct Budget {
    seconds: f64,
    at: Instant,
}

impl Budget {
    /// Seconds per second: the most that back-to-back requests may cost.
    const RATE: f64 = 0.25;
    /// Twenty scrapes of 500 busy workloads: a few Prometheus servers at once never wait.
    const MOST: f64 = 2.0;
    /// The longest that a slow rendering, on a machine that is overloaded, makes the next reader wait.
    const LONGEST_PAUSE: f64 = 1.0;

    const fn new(now: Instant) -> Self {
        Self { seconds: Self::MOST, at: now }
    }

    /// How long to wait before a rendering begins.
    fn pause(&mut self, now: Instant) -> Duration {
        self.refill(now);
        let debt = (-self.seconds).max(0.0);
        Duration::from_secs_f64((debt / Self::RATE).min(Self::LONGEST_PAUSE))
    }

    fn spend(&mut self, took: Duration, now: Instant) {
        // First, for the time of the rendering refills the budget, too, and must not shorten the pause.
        self.refill(now);
        let least = -Self::LONGEST_PAUSE * Self::RATE;
        self.seconds = (self.seconds - took.as_secs_f64()).max(least);
    }

    fn refill(&mut self, now: Instant) {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * Self::RATE;
        (self.seconds, self.at) = ((self.seconds + earned).min(Self::MOST), now);
    }
}

#[cfg(test)]
mod tests;
