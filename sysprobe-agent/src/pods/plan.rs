//! Turns facts and configuration into a plan: which sources of pod names are asked, and why the others are
//! not. Pure except for `PodFacts::collect`, which decides nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::config::{PodsConfig, RuntimeConfig, Sources};
use super::source::SourceKind;

/// Where the kubelet mounts a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The sockets of containerd as packaged, CRI-O, containerd of k3s and RKE2, and cri-dockerd.
const CRI_SOCKETS: [&str; 4] = [
    "/run/containerd/containerd.sock",
    "/var/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/cri-dockerd.sock",
];

/// What the process and the host offer for finding pod names.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PodFacts {
    /// Value of the environment variable `NODE_NAME`, which the pod's manifest sets to the node's name.
    /// `None` if it is not set.
    pub node_name: Option<String>,
    /// Value of the environment variable `NODE_IP`, which the pod's manifest sets to the node's address.
    /// `None` if it is not set.
    pub node_ip: Option<String>,
    /// Whether the process runs in a pod with a service account token and the API server's address.
    pub service_account: bool,
    /// Paths of the CRI sockets that exist in the usual places, in order of preference.
    pub cri_sockets: Vec<PathBuf>,
}

/// Which sources of pod names are asked, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PodsPlan {
    /// How the Kubernetes API server is asked. `None` if it is not.
    pub kubernetes: Option<KubernetesPlan>,
    /// How the kubelet of this node is asked. `None` if it is not.
    pub kubelet: Option<KubeletPlan>,
    /// How the container runtime is asked through its CRI socket. `None` if it is not.
    pub cri: Option<CriPlan>,
    /// Directories with the state files of container runtimes. `None` if they are not read.
    pub runtime: Option<RuntimePlan>,
    /// Sources that are not asked, each with the reason.
    pub passed_over: Vec<(SourceKind, String)>,
    /// How long the names of a pod are kept after it is gone.
    pub grace: Duration,
}

/// How the Kubernetes API server is asked.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KubernetesPlan {
    /// Name of this node in Kubernetes.
    pub node: String,
    /// Credentials for the API server.
    pub access: Access,
    /// Maximum random delay before the agent requests the list of pods.
    pub jitter: Duration,
}

/// Credentials for the API server.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The service account of the agent's own pod.
    ServiceAccount,
    /// The kubeconfig file at this path.
    Kubeconfig(PathBuf),
}

/// How the kubelet is asked.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KubeletPlan {
    /// URL of the kubelet.
    pub url: String,
    /// File with the CA that signed the kubelet's certificate.
    pub ca: PathBuf,
    /// Name in the kubelet's certificate. `None` if it is the one in the URL.
    pub server_name: Option<String>,
    /// File with the token that authenticates the agent.
    pub token: PathBuf,
    /// Whether the token is sent without verifying the kubelet's certificate.
    pub insecure: bool,
}

/// How the container runtime is asked through its CRI socket.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CriPlan {
    /// Path of the socket that is tried first.
    pub socket: PathBuf,
    /// Paths of further sockets, which are tried if no container runtime answers on `socket`.
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
                // The kubelet requires a right that the operator has to grant, so it has to be named
                // explicitly.
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

/// The name becomes a part of a field selector.
fn node(facts: &PodFacts, config: &PodsConfig) -> Result<String, String> {
    let node = config.node.as_ref().or(facts.node_name.as_ref());
    let node = node.ok_or("the node's name is unknown: set NODE_NAME or pods.node")?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if node.is_empty() || node.len() > 253 || !node.bytes().all(fits) {
        return Err(format!("{node:?} is not a valid node name"));
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
    // The token must not be sent unencrypted.
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
