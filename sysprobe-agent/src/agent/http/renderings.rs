//! Renderings that are shared. What clients do starts at most one rendering of each form after the one under
//! way, and two at a time in all: the work belongs to the exporter, not to the request, so a client that
//! leaves stops none and starts no other.
//!
//! No reader gets numbers that are older than its question: a question that comes while a rendering is under
//! way waits for the next one, together with all others that do. Renderings that are asked for without a
//! break take a quarter of a CPU, and no more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// At a time: each has a snapshot and the largest family in memory. One reads maps and files while the other
/// is written.
const UNDER_WAY: usize = 2;
/// Renderings of `FORMS` forms.
#[derive(Debug)]
pub(super) struct Renderings<T, const FORMS: usize> {
    forms: [Form<T>; FORMS],
    under_way: Semaphore,
    budget: Mutex<Budget>,
}

#[derive(Debug)]
struct Form<T> {
    /// Asked for, and not begun.
    ordered: Mutex<Option<watch::Receiver<Option<T>>>>,
    /// Held by the one under way.
    turn: tokio::sync::Mutex<()>,
}

/// It took too long.
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
    /// What `make` gives, or what that of another request gives which has not begun yet.
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
        // From here on, a question is one for the next rendering.
        drop(form.ordered().take());
        if rendering.is_closed() {
            // All that asked for it have left.
            return;
        }
        let begun = Instant::now();
        let made = make().await;
        self.budget().spend(begun.elapsed());
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

/// Time for renderings: it comes at a rate, is saved up to a point, and may be overdrawn by the rendering
/// under way.
#[derive(Debug)]
struct Budget {
    seconds: f64,
    at: Instant,
}

impl Budget {
    /// Seconds for each second: what readers that ask without a break may cost.
    const RATE: f64 = 0.25;
    /// Twenty scrapes of 500 busy workloads: a few Prometheis at once never wait.
    const MOST: f64 = 2.0;
    /// A rendering that took long, on a machine that is overloaded, does not make the next reader wait for
    /// longer than that.
    const LONGEST_PAUSE: f64 = 1.0;

    const fn new(now: Instant) -> Self {
        Self { seconds: Self::MOST, at: now }
    }

    /// How long to wait before a rendering begins.
    fn pause(&mut self, now: Instant) -> Duration {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * Self::RATE;
        (self.seconds, self.at) = ((self.seconds + earned).min(Self::MOST), now);
        let debt = (-self.seconds).max(0.0);
        Duration::from_secs_f64((debt / Self::RATE).min(Self::LONGEST_PAUSE))
    }

    fn spend(&mut self, took: Duration) {
        let least = -Self::LONGEST_PAUSE * Self::RATE;
        self.seconds = (self.seconds - took.as_secs_f64()).max(least);
    }
}

#[cfg(test)]
mod tests;
