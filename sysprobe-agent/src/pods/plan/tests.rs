//! Which sources are chosen on which host, and the reasons given for the others.

use super::*;

fn plan(facts: &PodFacts, config: &str) -> PodsPlan {
    PodsPlan::new(facts, &toml::from_str(config).expect("a configuration"), Duration::from_secs(60))
}

fn in_cluster() -> PodFacts {
    PodFacts {
        node_name: Some("node1".into()),
        node_ip: Some("10.0.0.1".into()),
        service_account: true,
        cri_sockets: vec!["/run/containerd/containerd.sock".into()],
    }
}

fn reason(plan: &PodsPlan, kind: SourceKind) -> &str {
    let found = plan.passed_over.iter().find(|(passed, _)| *passed == kind);
    found.map_or("", |(_, reason)| reason)
}

#[test]
fn auto_takes_what_is_there() {
    use SourceKind::{Cri, Kubernetes, Runtime};
    let anonymous = PodFacts { node_name: None, ..in_cluster() };
    let outside = PodFacts { service_account: false, ..in_cluster() };
    let table: [(PodFacts, &[SourceKind]); 4] = [
        (in_cluster(), &[Kubernetes, Runtime]),
        (anonymous, &[Cri, Runtime]),
        (outside, &[Cri, Runtime]),
        (PodFacts::default(), &[Runtime]),
    ];
    for (facts, expected) in table {
        let plan = plan(&facts, "");
        assert_eq!(plan.chosen(), expected, "{facts:?}");
        let started =
            [plan.kubernetes.is_some(), plan.kubelet.is_some(), plan.cri.is_some(), plan.runtime.is_some()];
        let named = SourceKind::ALL.map(|kind| expected.contains(&kind));
        assert_eq!(started, named, "{facts:?}");
    }
}

#[test]
fn what_is_not_chosen_has_a_reason() {
    let all = plan(&in_cluster(), "");
    assert_eq!(reason(&all, SourceKind::Kubelet), "only asked when pods.sources names it");
    assert_eq!(reason(&all, SourceKind::Cri), "kubernetes knows the same pods");
    let none = plan(&PodFacts::default(), "");
    assert!(reason(&none, SourceKind::Kubernetes).contains("service account"));
    assert!(reason(&none, SourceKind::Cri).contains("/var/run/crio/crio.sock"));
    let anonymous = plan(&PodFacts { node_name: None, ..in_cluster() }, "");
    assert!(reason(&anonymous, SourceKind::Kubernetes).contains("NODE_NAME"));
    assert!(plan(&in_cluster(), "sources = []").is_empty());
    assert_eq!(
        reason(&plan(&in_cluster(), "sources = ['cri']"), SourceKind::Runtime),
        "not among pods.sources"
    );
}

#[test]
fn the_configuration_comes_before_what_is_found() {
    let config = "sources = ['kubernetes', 'cri']\nnode = 'other'\nkubeconfig = '/k'\njitter_seconds = 3\n\
                  [cri]\nsocket = '/c.sock'";
    let plan = plan(&in_cluster(), config);
    let expected = KubernetesPlan {
        node: "other".into(),
        access: Access::Kubeconfig("/k".into()),
        jitter: Duration::from_secs(3),
    };
    assert_eq!(plan.kubernetes, Some(expected));
    assert_eq!(plan.cri, Some(CriPlan { socket: "/c.sock".into(), others: vec![] }));
}

#[test]
fn the_kubelet_is_found_by_address_or_name_and_never_asked_in_the_clear() {
    let url = |facts: &PodFacts, rest: &str| {
        let plan = plan(facts, &format!("sources = ['kubelet']\n{rest}"));
        let refused = reason(&plan, SourceKind::Kubelet).to_owned();
        plan.kubelet.map(|kubelet| kubelet.url).ok_or(refused)
    };
    assert_eq!(url(&in_cluster(), ""), Ok("https://10.0.0.1:10250".into()));
    let v6 = PodFacts { node_ip: Some("fd00::1".into()), ..in_cluster() };
    assert_eq!(url(&v6, ""), Ok("https://[fd00::1]:10250".into()));
    let named = PodFacts { node_ip: None, ..in_cluster() };
    assert_eq!(url(&named, ""), Ok("https://node1:10250".into()));
    assert_eq!(url(&named, "[kubelet]\nurl = 'https://k:1'"), Ok("https://k:1".into()));
    let refused = url(&named, "[kubelet]\nurl = 'http://k:10255'").expect_err("in the clear");
    assert!(refused.contains("https://"), "{refused}");
    let files = plan(&in_cluster(), "sources = ['kubelet']\n[kubelet]\nca = '/ca'").kubelet.expect("a plan");
    assert_eq!(files.ca, Path::new("/ca"));
    assert_eq!(files.token, Path::new("/var/run/secrets/kubernetes.io/serviceaccount/token"));
    assert!(!files.insecure);
}

#[test]
fn a_name_that_would_change_the_selector_is_refused() {
    for name in ["", "a,metadata.name=x", "Node", &"n".repeat(254)] {
        let facts = PodFacts { node_name: Some(name.into()), ..in_cluster() };
        let plan = plan(&facts, "sources = ['kubernetes']");
        assert_eq!(plan.kubernetes, None, "{name}");
        assert!(reason(&plan, SourceKind::Kubernetes).contains("is not a valid node name"), "{name}");
    }
}

#[test]
fn every_socket_that_may_be_a_runtimes_is_tried() {
    let cri_sockets = vec!["/a.sock".into(), "/b.sock".into()];
    let facts = PodFacts { cri_sockets, ..PodFacts::default() };
    let cri = |config| plan(&facts, config).cri.expect("a plan");
    let expected = CriPlan { socket: "/a.sock".into(), others: vec!["/b.sock".into()] };
    assert_eq!(cri("sources = ['cri']"), expected);
    let named = CriPlan { socket: "/c.sock".into(), others: vec![] };
    assert_eq!(cri("sources = ['cri']\n[cri]\nsocket = '/c.sock'"), named);
}
