//! Facts and configuration to a plan: which sources of pod names are asked, and why not the others. Pure but
//! for `PodFacts::collect`, which decides nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::config::{PodsConfig, RuntimeConfig, Sources};
use super::source::SourceKind;

/// Where the kubelet puts a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// containerd as packaged, CRI-O, containerd of k3s and RKE2, cri-dockerd.
const CRI_SOCKETS: [&str; 4] = [
    "/run/containerd/containerd.sock",
    "/var/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/cri-dockerd.sock",
];

/// What the process and the host offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PodFacts {
    /// The environment's `NODE_NAME`, which the manifest sets from the pod's own fields.
    pub node_name: Option<String>,
    /// `NODE_IP`, likewise.
    pub node_ip: Option<String>,
    /// The process runs in a pod that has a service account and is told where the API server is.
    pub service_account: bool,
    /// Sockets in the usual places, in the order of preference.
    pub cri_sockets: Vec<PathBuf>,
}

/// What will be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PodsPlan {
    /// The API server; `None` if it is not asked, as for the others.
    pub kubernetes: Option<KubernetesPlan>,
    /// The kubelet of this node.
    pub kubelet: Option<KubeletPlan>,
    /// The container runtime, by its CRI socket.
    pub cri: Option<CriPlan>,
    /// The files that container runtimes keep: where they are.
    pub runtime: Option<RuntimePlan>,
    /// Sources that are not asked, with the reason.
    pub passed_over: Vec<(SourceKind, String)>,
    /// How long what is known of a pod outlives it.
    pub grace: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KubernetesPlan {
    /// This node's name in Kubernetes.
    pub node: String,
    pub access: Access,
    /// The list of pods is asked for after a random time of up to this.
    pub jitter: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// That of the pod in which the agent runs.
    ServiceAccount,
    /// What this file says.
    Kubeconfig(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KubeletPlan {
    pub url: String,
    /// A file: who signed the kubelet's certificate.
    pub ca: PathBuf,
    /// The name in the certificate, if it is not the URL's.
    pub server_name: Option<String>,
    /// A file: by what it knows the agent.
    pub token: PathBuf,
    /// Whether whoever answers gets the token, without a look at the certificate.
    pub insecure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CriPlan {
    /// It is tried first.
    pub socket: PathBuf,
    /// What may be a container runtime's, too, if that is none.
    pub others: Vec<PathBuf>,
}

pub type RuntimePlan = RuntimeConfig;

impl PodFacts {
    #[must_use]
    pub fn collect() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let has_token = Path::new(SERVICE_ACCOUNT).join("token").exists();
        Self {
            node_name: variable("NODE_NAME"),
            node_ip: variable("NODE_IP"),
            service_account: has_token && variable("KUBERNETES_SERVICE_HOST").is_some(),
            cri_sockets: CRI_SOCKETS.map(PathBuf::from).into_iter().filter(|path| path.exists()).collect(),
        }
    }
}

impl PodsPlan {
    #[must_use]
    pub fn new(facts: &PodFacts, config: &PodsConfig, grace: Duration) -> Self {
        let mut plan = Self { grace, ..Self::default() };
        for kind in SourceKind::ALL {
            if let Err(reason) = plan.decide(kind, facts, config) {
                plan.passed_over.push((kind, reason));
            }
        }
        plan
    }

    fn decide(&mut self, kind: SourceKind, facts: &PodFacts, config: &PodsConfig) -> Result<(), String> {
        self.is_wanted(kind, config)?;
        match kind {
            SourceKind::Kubernetes => self.kubernetes = Some(plan_kubernetes(facts, config)?),
            SourceKind::Kubelet => self.kubelet = Some(plan_kubelet(facts, config)?),
            SourceKind::Cri => self.cri = Some(plan_cri(facts, config)?),
            SourceKind::Runtime => self.runtime = Some(config.runtime.clone()),
        }
        Ok(())
    }

    fn is_wanted(&self, kind: SourceKind, config: &PodsConfig) -> Result<(), String> {
        match &config.sources {
            Sources::Only(kinds) if kinds.contains(&kind) => Ok(()),
            Sources::Only(_) => Err("not among pods.sources".to_owned()),
            Sources::Auto => match kind {
                // Whoever grants the right to read from the kubelet knows it.
                SourceKind::Kubelet => Err("only asked when pods.sources names it".to_owned()),
                SourceKind::Cri if self.kubernetes.is_some() => {
                    Err("kubernetes knows the same pods".to_owned())
                }
                _ => Ok(()),
            },
        }
    }

    /// Whether any source is asked at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.kubernetes.is_none() && self.kubelet.is_none() && self.cri.is_none() && self.runtime.is_none()
    }

    /// The sources that are asked.
    #[must_use]
    pub fn chosen(&self) -> Vec<SourceKind> {
        let is_passed_over = |kind: &SourceKind| self.passed_over.iter().any(|(passed, _)| passed == kind);
        SourceKind::ALL.into_iter().filter(|kind| !is_passed_over(kind)).collect()
    }
}

fn plan_kubernetes(facts: &PodFacts, config: &PodsConfig) -> Result<KubernetesPlan, String> {
    let access = match &config.kubeconfig {
        Some(path) => Access::Kubeconfig(path.clone()),
        None if facts.service_account => Access::ServiceAccount,
        None => {
            return Err("not in a pod with a service account, and pods.kubeconfig names no file".to_owned());
        }
    };
    let jitter = Duration::from_secs(config.jitter_seconds);
    Ok(KubernetesPlan { node: node(facts, config)?, access, jitter })
}

/// The name becomes a part of a selector.
fn node(facts: &PodFacts, config: &PodsConfig) -> Result<String, String> {
    let node = config.node.as_ref().or(facts.node_name.as_ref());
    let node = node.ok_or("the node's name is unknown: set NODE_NAME or pods.node")?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if node.is_empty() || node.len() > 253 || !node.bytes().all(fits) {
        return Err(format!("{node:?} is no name of a node"));
    }
    Ok(node.clone())
}

fn plan_kubelet(facts: &PodFacts, config: &PodsConfig) -> Result<KubeletPlan, String> {
    let wanted = &config.kubelet;
    let url = match (&wanted.url, &facts.node_ip) {
        (Some(url), _) => url.clone(),
        (None, Some(ip)) if ip.contains(':') => format!("https://[{ip}]:10250"),
        (None, Some(ip)) => format!("https://{ip}:10250"),
        (None, None) => format!("https://{}:10250", node(facts, config)?),
    };
    // The token must not travel in the clear.
    if !url.starts_with("https://") {
        return Err(format!("pods.kubelet.url is {url:?}, which does not begin with https://"));
    }
    let file = |wanted: &Option<PathBuf>, name| {
        wanted.clone().unwrap_or_else(|| Path::new(SERVICE_ACCOUNT).join(name))
    };
    Ok(KubeletPlan {
        url,
        ca: file(&wanted.ca, "ca.crt"),
        server_name: wanted.server_name.clone(),
        token: file(&wanted.token, "token"),
        insecure: wanted.insecure,
    })
}

fn plan_cri(facts: &PodFacts, config: &PodsConfig) -> Result<CriPlan, String> {
    if let Some(socket) = &config.cri.socket {
        return Ok(CriPlan { socket: socket.clone(), others: Vec::new() });
    }
    let (socket, others) = facts
        .cri_sockets
        .split_first()
        .ok_or_else(|| format!("there is no socket at {}", CRI_SOCKETS.join(", ")))?;
    Ok(CriPlan { socket: socket.clone(), others: others.to_vec() })
}

#[cfg(test)]
mod tests;
