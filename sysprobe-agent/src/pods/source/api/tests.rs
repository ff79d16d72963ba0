//! What the source requests from an API server, and when, against a fake one.

use hyper::body::Bytes;

use super::super::fake::{Fake, Reply, next, start};
use super::*;
use crate::heap_meter;

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
        "{{\"metadata\": {{\"uid\": \"u-{name}\", \"namespace\": \"ns\", \"name\": \"{name}\", \
         \"resourceVersion\": \"{version}\"}}}}"
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

/// The version from which a watch continues. The watch's length is random.
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

/// The credentials in a kubeconfig are read when the client is made.
#[tokio::test(start_paused = true)]
async fn a_client_whose_credentials_are_refused_is_not_used_again() {
    for (status, is_kept) in [(401, false), (403, true), (500, true)] {
        let fake = Fake::new(vec![Reply::Status(status, None, "{}".into())]);
        let mut api = api(&fake, Duration::ZERO);
        let (sender, _updates) = tokio::sync::mpsc::channel(64);
        let failure = api.run(&Feed::new(SourceKind::Kubernetes, sender)).await;
        assert_eq!(api.client.is_some(), is_kept, "{failure}");
    }
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
    assert!(next(&mut updates).await.starts_with("failed the API server closed the watch at once"));
    for _ in 0..2 {
        assert!(next(&mut updates).await.starts_with("failed requesting /api/v1/pods"));
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
    let failure = loop {
        let update = next(&mut updates).await;
        if update.starts_with("failed") {
            break update;
        }
    };
    assert!(failure.contains("timed out"), "{failure}");
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

/// The JSON size of 700 KB of `<` in a container's arguments.
const ARGUMENT: usize = 700_000 * 6;
/// Heap limit for a list or a line, whatever they contain. The async runtime and the client take most of it.
const HEAP_MAX: usize = 1 << 20;

/// A pod of this name with an argument of this length, in the pieces in which a connection delivers it.
fn large(name: &str, version: &str, argument: usize) -> impl Iterator<Item = Bytes> + Send + use<> {
    const ESCAPED: &str = "\\u003c";
    let piece = Bytes::from(ESCAPED.repeat(10_000));
    let count = argument.div_ceil(piece.len());
    let metadata = format!(
        "{{\"metadata\": {{\"uid\": \"u-{name}\", \"namespace\": \"ns\", \"name\": \"{name}\", \
         \"resourceVersion\": \"{version}\"}}"
    );
    let head = format!(r#"{metadata}, "spec": {{"containers": [{{"name": "main", "args": [""#);
    let tail = r#""]}]}, "status": {"qosClass": "Burstable"}}"#;
    [Bytes::from(head)].into_iter().chain(std::iter::repeat_n(piece, count)).chain([Bytes::from(tail)])
}

fn pieces(pieces: impl Iterator<Item = Bytes> + Send + 'static, stays_open: bool) -> Reply {
    Reply::Pieces { pieces: Box::new(pieces), stays_open }
}

/// The next report that is not only a sign of life.
async fn news(updates: &mut tokio::sync::mpsc::Receiver<crate::pods::source::Update>) -> String {
    loop {
        match next(updates).await {
            alive if alive == "alive" => {}
            news => return news,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_pod_gets_its_name_and_blinds_no_watch() {
    let line = |pod| {
        let text = |text: &'static str| [Bytes::from(text)].into_iter();
        text(r#"{"type":"ADDED","object":"#).chain(pod).chain(text("}\n"))
    };
    let events = line(large("a", "8", 5 << 20)).chain(line(large("huge", "9", 64 << 20)));
    let events = events.chain([Bytes::from(event("ADDED", &pod("b", "10")))]);
    let replies = vec![list("7", &[]), pieces(events, false), Reply::Open(vec![])];
    let before = heap_meter::begin();
    let (fake, mut updates) = started(replies);
    for expected in ["synced ", "applied a", "applied huge", "applied b"] {
        assert_eq!(news(&mut updates).await, expected);
    }
    let taken = heap_meter::peak_since(before);
    println!("{} KiB of the heap for lines of 5 and 64 MiB", taken >> 10);
    assert!(taken < HEAP_MAX, "{taken} bytes");
    while fake.uris().len() < 3 {
        tokio::task::yield_now().await;
        drop(updates.try_recv());
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    assert_eq!(watch_from(&fake.uris()[2]), "10");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_large_pods_has_all_their_names() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let head = Bytes::from(r#"{"metadata": {"resourceVersion": "7"}, "items": ["#);
    let comma = || [Bytes::from(",")].into_iter();
    let pods = names.into_iter().flat_map(move |name| large(name, "1", ARGUMENT).chain(comma()));
    let last = Bytes::from(format!("{}]}}", pod("small", "2")));
    let before = heap_meter::begin();
    let (_fake, mut updates) =
        started(vec![pieces([head].into_iter().chain(pods).chain([last]), false), Reply::Open(vec![])]);
    assert_eq!(next(&mut updates).await, format!("synced {} small", names.join(" ")));
    let taken = heap_meter::peak_since(before);
    println!("{} KiB of the heap for a list of {} MiB", taken >> 10, (names.len() * ARGUMENT) >> 20);
    assert!(taken < HEAP_MAX, "{taken} bytes");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_passed_over_and_not_asked_for_again() {
    let broken = r#"{"metadata": {"uid": 5, "namespace": "ns", "name": "odd", "resourceVersion": "8"}}"#;
    let lines = vec![
        event("ADDED", broken),
        "what is this\n".to_owned(),
        event("ADDED", &pod("b", "9")),
        event("MODIFIED", &broken.replace("\"8\"", "\"10\"")),
    ];
    let (fake, mut updates) =
        started(vec![list("7", &["a"]), Reply::Lines(lines), Reply::Refused, Reply::Open(vec![])]);
    for expected in ["synced a", "unread ns/odd", "unread ?/?", "applied b", "unread ns/odd"] {
        assert_eq!(news(&mut updates).await, expected);
    }
    assert!(news(&mut updates).await.contains("closed the watch at once"));
    while fake.uris().len() < 3 {
        news(&mut updates).await;
    }
    assert_eq!(watch_from(&fake.uris()[2]), "10", "from behind what could not be read");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_does_not_spoil_the_list() {
    let odd = r#"{"metadata": {"uid": "u", "namespace": "ns", "name": "odd"}, "spec": 5}"#;
    let list = format!(r#"{{"metadata": {{"resourceVersion": "7"}}, "items": [{odd}, {}]}}"#, pod("b", "1"));
    let (_fake, mut updates) = started(vec![Reply::json(&list), Reply::Open(vec![])]);
    for expected in ["synced b", "unread ns/odd"] {
        assert_eq!(news(&mut updates).await, expected);
    }
}
