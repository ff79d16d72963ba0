//! The JSON form for hosts that offer everything, and for hosts that offer nothing.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::cli::command::check::trial::Verdict;
use crate::cli::schema::{Form, proof};
use crate::host::{Offers, Privilege};
use crate::plan::fixture::{facts, v1};
use crate::pods::PodFacts;
use crate::pods::plan::{Access, KubeletPlan, KubernetesPlan};
use crate::probe::AttachMode;

/// The JSON document, checked against its schema.
fn document(facts: Facts, trials: Option<Vec<Trial>>, agent: Agent) -> Value {
    let plan = Plan::new(&facts, &Config::default());
    let report = Report::new(facts, plan, trials, agent);
    let document = serde_json::to_value(&report).expect("plain data");
    proof::assert_fits(Form::Check, &document);
    document
}

#[test]
fn a_host_with_everything_is_what_the_schema_says() {
    let trial = |verdict| Trial { domain: "sched", mode: AttachMode::TpBtf, verdict };
    let trials = vec![trial(Verdict::Taken), trial(Verdict::Refused("no such member".to_owned()))];
    let state = |name: &str, up| DomainState {
        name: name.to_owned(),
        up,
        mode: "tp_btf".to_owned(),
        ..DomainState::default()
    };
    let source = PodSourceSample { source: "cri".to_owned(), up: false, reason: "refused".to_owned() };
    let domains = vec![state("sched", true), state("vfs", false)];
    let mut facts = facts();
    facts.pods = PodFacts {
        node_name: Some("node-1".to_owned()),
        node_ip: Some("192.0.2.1".to_owned()),
        service_account: true,
        cri_sockets: vec!["/run/containerd/containerd.sock".into()],
    };
    let document = document(facts, Some(trials), Agent::Running { domains, pod_sources: vec![source] });
    assert_eq!((&document["version"], &document["trials"][0]["verdict"]), (&1.into(), &"taken".into()));
    assert_eq!(document["plan"]["pods"]["kubernetes"]["access"], "service_account");
}

#[test]
fn a_host_with_nothing_is_what_the_schema_says() {
    let mut facts = facts();
    facts.kernel = "5.10.0".to_owned();
    facts.layout = Err("there is no BTF".to_owned());
    facts.hierarchy = Err("nothing is mounted".to_owned());
    facts.offers = Offers::default();
    facts.privilege =
        Privilege { bpf: false, perfmon: false, locked_memory_bytes: Some(65_536), ..facts.privilege };
    facts.sees_all_processes = false;
    let document = document(facts, None, Agent::None);
    assert_eq!((&document["trials"], &document["plan"]["hierarchy"]), (&Value::Null, &Value::Null));
    assert_eq!(document["agent"], "none");
    let lacks = document["lacks"].as_array().expect("rights");
    let names: Vec<_> = lacks.iter().filter_map(|lack| lack["capability"].as_str()).collect();
    assert_eq!(names, ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_RESOURCE", "CAP_DAC_READ_SEARCH", "CAP_SYS_ADMIN"]);
    assert_eq!(lacks[4]["need"], "statistics");
}

#[test]
fn every_source_of_names_and_the_older_cgroups_are_what_the_schema_says() {
    let mut facts = facts();
    facts.hierarchy = Ok(v1());
    let mut plan = Plan::new(&facts, &Config::default());
    plan.pods.kubelet = Some(KubeletPlan {
        url: "https://192.0.2.1:10250".to_owned(),
        ca: "/ca.crt".into(),
        server_name: None,
        token: "/token".into(),
        insecure: false,
    });
    plan.pods.kubernetes = Some(KubernetesPlan {
        node: "node-1".to_owned(),
        access: Access::Kubeconfig("/kubeconfig".into()),
        jitter: Duration::from_secs(1),
    });
    let agent = Agent::Silent("it does not answer".to_owned());
    let report = Report::new(facts, plan, None, agent);
    proof::assert_fits(Form::Check, &serde_json::to_value(&report).expect("plain data"));
}
