//! Runs the scans on threads of their own. Threads are counted when the kernel would, every five seconds and
//! a tick. Sockets are booked and counted when the agent is asked, for a bounded share of a CPU.

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
use crate::sched::load::period;

/// How long a pass may take. A million sockets take about a second; on a machine without a free CPU it may be
/// many times that.
const LIMIT: Duration = Duration::from_secs(10);
/// How long an answer waits for a pass, which is enough for some hundred thousand sockets. After that it has
/// the counts of the pass before.
const WAIT: Duration = Duration::from_millis(200);
/// Passes over sockets may have this part of a CPU.
const SHARE: u32 = 100;
/// What they may save up of it: small machines are scanned at each question, however close together some of
/// them are.
const SAVED: Duration = Duration::from_millis(100);

/// Counts all threads, whether or not anything asks.
pub(super) async fn count_threads_often(shared: Shared, mut stop: Receiver<bool>) {
    let mut pace = interval(period(host::tick_ns()));
    // What was missed is made up for by the next.
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
    if let Some(scan) = shared.with(Engine::begin_census).await?.flatten() {
        let counted = run(scan).await?;
        shared.with(|engine| engine.end_census(counted)).await?;
    }
    Ok(())
}

/// Tasks that are running but unknown, because their birth was missed, are made known from now on.
pub(super) async fn seed_tasks(shared: &Shared) -> anyhow::Result<()> {
    if let Some(scan) = shared.with(Engine::begin_task_seed).await?.flatten()
        && let Err(error) = run(scan).await?
    {
        warn!(%error, "The scan for unknown tasks failed; tasks whose start was missed stay unknown.");
    }
    Ok(())
}

/// Nothing has to wait for the engine while the kernel counts.
async fn run(scan: Scan) -> anyhow::Result<std::io::Result<Pass>> {
    Ok(tokio::task::spawn_blocking(move || scan.run(LIMIT)).await?)
}

/// Has the sockets booked and counted, one pass at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketScans(Arc<Mutex<Pace>>);

impl SocketScans {
    /// Runs a pass, or waits for one that began after this question. Passes that take long go on behind the
    /// caller's back.
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

/// When a pass may begin: while there is something left of the share. A pass may cost more than there is;
/// what it owes is waited for.
#[derive(Debug, Default)]
struct Pace {
    began: Option<Instant>,
    /// What is left of the share when the last pass began, and what has been spent since.
    left: Duration,
    spent: Duration,
}

impl Pace {
    fn began_since(&self, asked: Instant) -> bool {
        self.began.is_some_and(|began| began >= asked)
    }

    /// Begins one, if one may.
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

    /// How many of the passes that are asked for at this pace begin within a time.
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
