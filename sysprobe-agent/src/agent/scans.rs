//! Runs the scans on threads of their own. Threads are counted as often as the kernel updates its load
//! average, every five seconds and a tick. Sockets are read and counted on request, for a bounded share of a
//! CPU.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch::Receiver;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{error, warn};

use super::Shared;
use crate::bpf::{Pass, Scan};
use crate::engine::Engine;
use crate::host;
use crate::snapshot::load_average::period;

/// How long a pass may take. A million sockets take about a second, and many times that on a machine without
/// a free CPU.
const LIMIT: Duration = Duration::from_secs(10);
/// How long an answer waits for a pass: enough for some hundred thousand sockets. After that, it uses the
/// counts of the previous pass.
const WAIT: Duration = Duration::from_millis(200);
/// Passes over sockets may use one hundredth of a CPU.
const SHARE: u32 = 100;
/// CPU time that may be saved up, so that small machines are scanned at each request, even if some requests
/// are close together.
const SAVED: Duration = Duration::from_millis(100);

/// Counts all threads, with or without requests.
pub(super) async fn count_threads_often(shared: Shared, mut stop: Receiver<bool>) {
    let mut pace = interval(period(host::tick_ns()));
    // The next tick makes up for a missed one.
    pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = pace.tick() => {
                if let Err(error) = count_threads(&shared).await {
                    error!(%error, "The task scan failed.");
                }
            }
            _ = stop.changed() => return,
        }
    }
}

async fn count_threads(shared: &Shared) -> anyhow::Result<()> {
    seed_tasks(shared).await?;
    if let Some(scan) = shared.with(Engine::begin_task_scan).await?.flatten() {
        let counted = run(scan).await?;
        shared.with(|engine| engine.end_task_scan(counted)).await?;
    }
    Ok(())
}

/// Registers tasks that are running but unknown, because their creation was missed.
pub(super) async fn seed_tasks(shared: &Shared) -> anyhow::Result<()> {
    if let Some(scan) = shared.with(Engine::begin_task_seed).await?.flatten()
        && let Err(error) = run(scan).await?
    {
        warn!(%error, "The scan for unknown tasks failed; tasks whose start was missed stay unknown.");
    }
    Ok(())
}

/// Does not block the engine while the kernel counts.
async fn run(scan: Scan) -> anyhow::Result<std::io::Result<Pass>> {
    Ok(tokio::task::spawn_blocking(move || scan.run(LIMIT)).await?)
}

/// Reads and counts the sockets, one pass at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketScans(Arc<Mutex<Pace>>);

impl SocketScans {
    /// Runs a pass, or waits for one that began after this request. A pass that takes too long for the caller
    /// continues in the background.
    pub(super) async fn freshen(&self, shared: &Shared) {
        let asked = Instant::now();
        let pass = async {
            let mut pace = Arc::clone(&self.0).lock_owned().await;
            if pace.began_since(asked) || !pace.may_begin(Instant::now()) {
                return Ok(());
            }
            tokio::spawn(scan_sockets(shared.clone(), pace)).await?
        };
        if let Ok(Err(error)) = timeout(WAIT, pass).await {
            error!(%error, "The socket scan failed.");
        }
    }
}

/// The guard keeps other passes from beginning.
async fn scan_sockets(shared: Shared, mut pace: OwnedMutexGuard<Pace>) -> anyhow::Result<()> {
    if let Some(scan) = shared.with(Engine::begin_socket_scan).await?.flatten() {
        let counted = run(scan).await?;
        if let Ok(pass) = &counted {
            pace.spend(pass.cpu);
        }
        shared.with(|engine| engine.end_socket_scan(counted)).await?;
    }
    Ok(())
}

/// When a pass may begin: while some of the share is left. A pass may cost more than is left; the next one
/// waits until that is made up for.
#[derive(Debug, Default)]
struct Pace {
    began: Option<Instant>,
    /// What was left of the share when the last pass began, and what has been spent since.
    left: Duration,
    spent: Duration,
}

impl Pace {
    fn began_since(&self, asked: Instant) -> bool {
        self.began.is_some_and(|began| began >= asked)
    }

    /// Begins a pass, if one may begin.
    fn may_begin(&mut self, now: Instant) -> bool {
        let earned = self.began.map_or(SAVED, |began| now.duration_since(began) / SHARE);
        let Some(left) = (self.left + earned).checked_sub(self.spent) else { return false };
        *self = Self { began: Some(now), left: left.min(SAVED), spent: Duration::ZERO };
        true
    }

    fn spend(&mut self, cpu: Duration) {
        self.spent += cpu;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many passes begin within a time if one is requested at this interval.
    fn passes(cost: Duration, every: Duration, within: Duration) -> u32 {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let end = now + within;
        let mut begun = 0;
        while now < end {
            if pace.may_begin(now) {
                pace.spend(cost);
                begun += 1;
            }
            now += every;
        }
        begun
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_small_machine_is_scanned_at_each_question() {
        let cost = Duration::from_micros(100);
        assert_eq!(passes(cost, Duration::from_millis(10), MINUTE), 6000);
        assert_eq!(passes(cost, Duration::from_secs(1), MINUTE), 60);
    }

    #[test]
    fn a_large_one_is_scanned_for_a_hundredth_of_a_cpu_however_often_it_is_asked() {
        for every in [Duration::from_millis(10), Duration::from_secs(1)] {
            for cost in [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)] {
                let used = cost * passes(cost, every, 10 * MINUTE);
                assert!(used <= 10 * MINUTE / SHARE + SAVED + cost, "{used:?} with {cost:?} each {every:?}");
                assert!(used >= 9 * MINUTE / SHARE, "{used:?} with {cost:?} each {every:?}");
            }
        }
    }

    #[test]
    fn a_pass_that_began_after_the_question_answers_it() {
        let mut pace = Pace::default();
        let before = Instant::now();
        assert!(pace.may_begin(before + Duration::from_secs(1)));
        assert!(pace.began_since(before));
        assert!(!pace.began_since(before + Duration::from_secs(2)));
    }
}
