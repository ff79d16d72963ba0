//! What is asked of an API server, and when: against a fake one.

use super::super::fake::{Fake, Reply, next, start};
use super::*;

const LIST: &str =
    "/api/v1/pods?&fieldSelector=spec.nodeName%3Dnode1&resourceVersion=0&resourceVersionMatch=NotOlderThan";

fn api(fake: &Fake, jitter: Duration) -> Api {
    let plan = KubernetesPlan { node: "node1".into(), access: Access::ServiceAccount, jitter };
    Api { plan, client: Some(fake.client()), version: None }
}

fn started(replies: Vec<Reply>) -> (Fake, tokio::sync::mpsc::Receiver<crate::pods::source::Update>) {
    let fake = Fake::new(replies);
    let updates = start(api(&fake, Duration::ZERO));
    (fake, updates)
}

fn list(version: &str, names: &[&str]) -> Reply {
    let pods = names.iter().map(|name| pod(name, "1")).collect::<Vec<_>>().join(",");
    Reply::json(&format!(r#"{{"metadata": {{"resourceVersion": "{version}"}}, "items": [{pods}]}}"#))
}

fn pod(name: &str, version: &str) -> String {
    format!(
        r#"{{"metadata": {{"uid": "u-{name}", "namespace": "ns", "name": "{name}", "resourceVersion": "{version}"}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(version: &str) -> String {
    event("BOOKMARK", &format!(r#"{{"metadata": {{"resourceVersion": "{version}"}}}}"#))
}

const GONE: &str =
    r#"{"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}"#;

/// The version that a watch goes on from; its length is left to chance.
fn watch_from(uri: &str) -> &str {
    let rest = uri.strip_prefix("/api/v1/pods?&watch=true&timeoutSeconds=").expect("a watch");
    let (seconds, rest) = rest.split_once('&').expect("more");
    assert!((240..=290).contains(&seconds.parse::<u32>().expect("seconds")), "{uri}");
    rest.strip_prefix("fieldSelector=spec.nodeName%3Dnode1&allowWatchBookmarks=true&resourceVersion=")
        .expect(uri)
}

#[tokio::test(start_paused = true)]
async fn one_list_from_the_cache_then_one_watch_from_there() {
    let events = vec![
        event("ADDED", &pod("b", "8")),
        event("MODIFIED", &pod("a", "9")),
        bookmark("10"),
        event("DELETED", &pod("a", "11")),
    ];
    let (fake, mut updates) = started(vec![list("7", &["a"]), Reply::Open(events)]);
    for expected in ["synced a", "alive", "applied b", "applied a", "alive", "deleted a"] {
        assert_eq!(next(&mut updates).await, expected);
    }
    let uris = fake.uris();
    assert_eq!((uris.len(), uris[0].as_str(), watch_from(&uris[1])), (2, LIST, "7"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_was_without_another_list() {
    let (fake, mut updates) = started(vec![
        list("7", &[]),
        Reply::Lines(vec![event("ADDED", &pod("a", "8")), bookmark("12")]),
        Reply::Refused,
        Reply::Refused,
        Reply::Open(vec![event("ADDED", &pod("b", "13"))]),
    ]);
    for expected in ["synced ", "alive", "applied a", "alive"] {
        assert_eq!(next(&mut updates).await, expected);
    }
    assert!(next(&mut updates).await.starts_with("failed the API server ended the watch at once"));
    for _ in 0..2 {
        assert!(next(&mut updates).await.starts_with("failed asking for /api/v1/pods"));
    }
    assert_eq!(next(&mut updates).await, "alive");
    assert_eq!(next(&mut updates).await, "applied b");
    let uris = fake.uris();
    assert_eq!(uris[1..].iter().map(|uri| watch_from(uri)).collect::<Vec<_>>(), ["7", "12", "12", "12"]);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_version_means_another_list_from_the_cache() {
    for gone in [Reply::Open(vec![event("ERROR", GONE)]), Reply::Status(410, None, GONE.into())] {
        let (fake, mut updates) = started(vec![
            list("7", &["a"]),
            Reply::Open(vec![bookmark("8")]),
            Reply::Refused,
            gone,
            list("90", &["b"]),
            Reply::Open(vec![]),
        ]);
        while next(&mut updates).await != "synced b" {}
        assert_eq!(next(&mut updates).await, "alive");
        let uris = fake.uris();
        assert_eq!((uris[4].as_str(), watch_from(&uris[5])), (LIST, "90"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_left_alone_for_as_long_as_it_asks() {
    let busy = |pause| Reply::Status(429, Some(pause), "Too many requests, please try again later.\n".into());
    let (fake, mut updates) =
        started(vec![busy(20), busy(40), list("7", &[]), busy(30), Reply::Open(vec![])]);
    assert!(next(&mut updates).await.contains("429 Too Many Requests: Too many requests"));
    while next(&mut updates).await != "alive" {}
    let at: Vec<_> = fake.asked().iter().map(|asked| asked.at.as_secs()).collect();
    let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((20..=30).contains(&pauses[0]) && (40..=60).contains(&pauses[1]), "{pauses:?}");
    assert_eq!(pauses[2], 0, "from list to watch");
    assert!((30..=45).contains(&pauses[3]), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_or_broken_is_asked_less_and_less() {
    let ends_at_once = || (0..100).map(|_| Reply::Lines(vec![]));
    let forgets = || (0..100).flat_map(|_| [list("7", &[]), Reply::Status(410, None, GONE.into())]);
    let garbage = || (0..100).map(|_| Reply::json("<html>"));
    let scripts: [Vec<Reply>; 4] = [
        vec![],
        [list("7", &[])].into_iter().chain(ends_at_once()).collect(),
        forgets().collect(),
        garbage().collect(),
    ];
    for (number, script) in scripts.into_iter().enumerate() {
        let (fake, mut updates) = started(script);
        let ten_minutes = async { while updates.recv().await.is_some() {} };
        assert!(timeout(Duration::from_secs(600), ten_minutes).await.is_err());
        let asked = fake.asked();
        assert!((15..60).contains(&asked.len()), "script {number}: {} requests", asked.len());
        let lists = asked.iter().filter(|asked| asked.uri == LIST).count();
        assert!(number != 1 || lists == 1, "one list is enough");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up_and_not_trusted() {
    let (fake, mut updates) =
        started(vec![list("7", &[]), Reply::Open(vec![]), list("9", &["a"]), Reply::Open(vec![])]);
    while !next(&mut updates).await.contains("gone silent") {}
    assert_eq!(next(&mut updates).await, "synced a");
    assert!(fake.asked()[2].at >= SILENCE);
}

#[tokio::test(start_paused = true)]
async fn the_first_list_comes_after_a_random_time() {
    let mut delays = Vec::new();
    for _ in 0..20 {
        let fake = Fake::new(vec![list("7", &[]), Reply::Open(vec![])]);
        let mut updates = start(api(&fake, Duration::from_secs(30)));
        assert_eq!(next(&mut updates).await, "synced ");
        delays.push(fake.asked()[0].at.as_secs_f64());
    }
    assert!(delays.iter().all(|delay| (0.0..30.1).contains(delay)), "{delays:?}");
    assert!(
        delays.iter().any(|delay| *delay < 15.0) && delays.iter().any(|delay| *delay > 15.0),
        "{delays:?}"
    );
}
