//! When the kubelet is asked, and with which token, against a fake one.

use std::fs;
use std::path::Path;

use tokio::time::advance;

use super::super::fake::{Fake, Reply, next, start};
use super::*;

fn list(name: &str) -> Reply {
    Reply::json(&format!(
        r#"{{"metadata": {{}}, "items": [{{"metadata": {{"uid": "u", "name": "{name}"}}}}]}}"#
    ))
}

fn kubelet(fake: &Fake, token: &Path) -> (Kubelet, Arc<Demand>) {
    let plan = KubeletPlan {
        url: "https://node1:10250".into(),
        ca: "/ca".into(),
        server_name: None,
        token: token.into(),
        insecure: false,
    };
    let demand = Arc::<Demand>::default();
    (Kubelet { plan, demand: Arc::clone(&demand), client: Some(fake.client()), asked: None }, demand)
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_nothing_happens() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    let fake = Fake::new(vec![list("a")]);
    let (kubelet, _demand) = kubelet(&fake, token.path());
    let mut updates = start(kubelet);
    let hour = tokio::time::timeout(Duration::from_secs(3600), updates.recv()).await;
    assert!(hour.is_err() && fake.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_token_is_read_anew_for_each_request() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    let fake = Fake::new(vec![list("a"), list("b")]);
    let (kubelet, demand) = kubelet(&fake, token.path());
    let mut updates = start(kubelet);
    for (text, name) in [("first\n", "a"), ("second", "b")] {
        fs::write(token.path(), text).expect("a token");
        demand.ask();
        assert_eq!(next(&mut updates).await, format!("synced {name}"));
    }
    let asked = fake.asked();
    let tokens: Vec<_> = asked.iter().map(|asked| asked.token.as_deref().unwrap_or_default()).collect();
    assert_eq!((asked[0].uri.as_str(), tokens), ("/pods", vec!["Bearer first", "Bearer second"]));
}

#[tokio::test(start_paused = true)]
async fn it_is_asked_again_while_something_is_unresolved_and_never_twice_in_a_second() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    let fake = Fake::new((0..100).map(|_| list("a")).collect());
    let (kubelet, demand) = kubelet(&fake, token.path());
    let mut updates = start(kubelet);
    demand.set_unresolved(1);
    demand.ask();
    for _ in 0..4 {
        next(&mut updates).await;
    }
    for _ in 0..50 {
        demand.ask();
        advance(Duration::from_millis(100)).await;
    }
    demand.set_unresolved(0);
    let quiet = async { while updates.recv().await.is_some() {} };
    assert!(tokio::time::timeout(Duration::from_secs(60), quiet).await.is_err());
    let asked: Vec<_> = fake.asked().iter().map(|asked| asked.at.as_secs_f64()).collect();
    assert!(asked.windows(2).all(|pair| pair[1] - pair[0] >= 0.99), "{asked:?}");
    assert_eq!(asked[..4].iter().map(|at| at.floor()).collect::<Vec<_>>(), [0.0, 1.0, 3.0, 7.0]);
    assert!((8..=11).contains(&asked.len()), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_it_asks_again_by_itself() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    fs::write(token.path(), "t").expect("a token");
    let forbidden = Reply::Status(403, None, "Forbidden (user=x, verb=get, resource=nodes)".into());
    let fake = Fake::new(vec![Reply::Refused, forbidden, list("a")]);
    let (kubelet, demand) = kubelet(&fake, token.path());
    let mut updates = start(kubelet);
    demand.ask();
    assert!(next(&mut updates).await.starts_with("failed requesting /pods"));
    assert!(next(&mut updates).await.contains("403 Forbidden: Forbidden (user=x"));
    assert_eq!(next(&mut updates).await, "synced a");
}
