//! The API server dies for a minute and comes back without the history that a watch could resume from; then
//! it is busy. No count and no name may be lost, and the agent asks no more often than it has to.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use super::labels;
use crate::e2e::agent::{self, Agent};
use crate::e2e::cluster::proxy::Request;
use crate::e2e::cluster::{etcd, proxy};
use crate::e2e::report::Report;
use crate::e2e::rig::Rig;
use crate::e2e::scraper::Scraper;
use crate::e2e::truth::Ids;
use crate::e2e::wait;
use crate::e2e::window::Window;

const NAME: &str = "outage";

/// How long the API server is down.
const AWAY: Duration = Duration::from_secs(60);

/// The busy server's Retry-After in seconds, and how long it stays busy after its first refusal.
const RETRY_AFTER: u32 = 4;
const BUSY: Duration = Duration::from_secs(20);

/// An agent that doubles its pause from one second on asks seven times in the first minute; twice that is not
/// a storm.
const ATTEMPTS: usize = 14;

/// After trouble, an agent may wait for half a minute plus jitter.
const RETURN_LIMIT: Duration = Duration::from_secs(90);

pub(super) fn run(rig: &mut Rig, report: &mut Report) -> Result<()> {
    let start = proxy::requests()?.len();
    let agent = Agent::start(&rig.access, agent::AUTO)?;
    let scraper = Scraper::start(labels::SCRAPE_PAUSE);
    report.check(
        NAME,
        "before: every container has its series, none is wrong",
        labels::settle(rig, Ids::Never),
    );
    report.check(NAME, "at its start an agent asks for one list and one watch", counted(start, 1, 1));

    let window = Window::open(rig)?;
    let start = proxy::requests()?.len();
    rig.cluster.kill_api();
    thread::sleep(AWAY);
    report.check(
        NAME,
        "without an API server: every container has its series, none is wrong",
        labels::steady(rig, Ids::Never),
    );
    report.check(NAME, "a server that is away is not stormed", attempts(start, ATTEMPTS));

    etcd::compact()?;
    proxy::busy(Some(RETRY_AFTER))?;
    let start = proxy::requests()?.len();
    rig.cluster.start_api()?;
    report.check(NAME, "a busy server is asked again no earlier than it said", refused(start));

    proxy::busy(None)?;
    let start = proxy::requests()?.len();
    report.check(NAME, "a server without history is asked for one list and one watch", returned(start));
    report.check(
        NAME,
        "after it: every container has its series, none is wrong",
        labels::settle(rig, Ids::Never),
    );

    let start = proxy::requests()?.len();
    proxy::cut()?;
    report.check(NAME, "after a broken connection an agent goes on where it was", counted(start, 0, 1));
    report.check(NAME, "on_cpu of each over all this time is what its cgroup used", window.close());
    report.check(NAME, "no counter went backwards, no scrape failed", labels::course(&scraper));
    drop(scraper);
    agent.stop()
}

/// Waits for a watch and checks the requests since `start`.
fn counted(start: usize, lists: usize, watches: usize) -> Result<String> {
    let asked = wait::until_within(RETURN_LIMIT, "the agent watches", || {
        let asked = since(start)?;
        Ok(asked.iter().any(|request| request.is_watch() && request.status == 200).then_some(asked))
    })?;
    let (cached, watched, other) = kinds(&asked);
    if (cached, watched, other) != (lists, watches, 0) {
        bail!("{cached} lists, {watched} watches, {other} others: {}", shown(&asked));
    }
    Ok(format!("{cached} lists from the cache, {watched} watches, nothing else"))
}

/// Like `counted`, but the first watch may be refused because its history has gone.
fn returned(start: usize) -> Result<String> {
    let asked = wait::until_within(RETURN_LIMIT, "the agent watches", || {
        let asked = since(start)?;
        let listed = asked.iter().position(|request| request.is_cached_list() && request.status == 200);
        let watches = asked.iter().skip(listed.unwrap_or(usize::MAX));
        Ok(watches.clone().any(|request| request.is_watch() && request.status == 200).then_some(asked))
    })?;
    let (cached, watched, other) = kinds(&asked);
    // The refusal may come as a status, or as the first event of a watch.
    if cached != 1 || watched > 2 || other != 0 {
        bail!("{cached} lists, {watched} watches, {other} others: {}", shown(&asked));
    }
    Ok(format!("answered with {}", statuses(&asked)))
}

fn statuses(requests: &[Request]) -> String {
    let name = |request: &Request| if request.is_watch() { "watch" } else { "list" };
    let words = requests.iter().map(|request| format!("{} to a {}", request.status, name(request)));
    words.collect::<Vec<_>>().join(", ")
}

fn attempts(start: usize, most: usize) -> Result<String> {
    let asked = since(start)?;
    if asked.len() > most {
        bail!("{} requests, at most {most} were expected: {}", asked.len(), shown(&asked));
    }
    Ok(format!("{} requests, none of them answered", asked.len()))
}

/// Waits for a first refusal and checks the ones that follow.
fn refused(start: usize) -> Result<String> {
    let refused = || Ok(since(start)?.iter().any(|request| request.status == 429).then_some(()));
    wait::until_within(RETURN_LIMIT, "the agent is refused", refused)?;
    thread::sleep(BUSY);
    let times: Vec<f64> = since(start)?.iter().map(|request| request.time).collect();
    let shortest = times.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    if shortest < f64::from(RETRY_AFTER) {
        bail!("{shortest:.1} s after the last time, where {RETRY_AFTER} s were asked for");
    }
    Ok(format!("{} requests, {shortest:.1} s apart at least", times.len()))
}

fn since(start: usize) -> Result<Vec<Request>> {
    Ok(proxy::requests()?.split_off(start))
}

/// The number of lists from the cache, of watches, and of other requests.
fn kinds(requests: &[Request]) -> (usize, usize, usize) {
    let watches = requests.iter().filter(|request| request.is_watch()).count();
    let cached = requests.iter().filter(|request| request.is_cached_list()).count();
    (cached, watches, requests.len() - watches - cached)
}

fn shown(requests: &[Request]) -> String {
    let lines =
        requests.iter().map(|request| format!("{:.1} {} {}", request.time, request.status, request.uri));
    lines.collect::<Vec<_>>().join(", ")
}
