//! The section `[pods]` of the configuration: which sources to ask for the names of pods, and how.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::source::SourceKind;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PodsConfig {
    /// `["auto"]`, or any of `kubernetes`, `kubelet`, `cri`, `runtime`. With an empty list, containers are
    /// named by their ids.
    pub sources: Sources,
    /// This node's name in Kubernetes, if the environment variable `NODE_NAME` does not have it.
    pub node: Option<String>,
    /// A kubeconfig file instead of the service account.
    pub kubeconfig: Option<PathBuf>,
    /// The list of pods is requested after a random time of up to this many seconds, so that agents that
    /// start together do not ask together.
    #[serde(deserialize_with = "jitter")]
    pub jitter_seconds: u64,
    pub kubelet: KubeletConfig,
    pub cri: CriConfig,
    pub runtime: RuntimeConfig,
}

/// Which sources are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// The sources that the host offers.
    Auto,
    Only(Vec<SourceKind>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KubeletConfig {
    /// Default: port 10250 of the address in the environment variable `NODE_IP`, else of the node's name.
    pub url: Option<String>,
    /// The CA of the kubelet's certificate, if it is not the cluster's. A kubelet that signed its own
    /// certificate has it in `/var/lib/kubelet/pki/kubelet.crt`.
    pub ca: Option<PathBuf>,
    /// The name in the kubelet's certificate, if it is not the URL's.
    pub server_name: Option<String>,
    /// A file with the token, instead of the service account's.
    pub token: Option<PathBuf>,
    /// Send the token without verifying the server's certificate.
    pub insecure: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CriConfig {
    /// The socket to use instead of those of containerd and CRI-O in their usual places.
    pub socket: Option<PathBuf>,
}

/// Directories with the state files of container runtimes. Several can be listed for each runtime, and
/// missing ones cost nothing.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeConfig {
    /// Directories of containerd: `state` in its configuration.
    pub containerd: Vec<PathBuf>,
    /// Directories of CRI-O: `runroot` of its storage.
    pub crio: Vec<PathBuf>,
    /// Directories of Docker: its `data-root`.
    pub docker: Vec<PathBuf>,
    /// Directories of Podman: `graphroot` of its storage.
    pub podman: Vec<PathBuf>,
}

impl Default for PodsConfig {
    fn default() -> Self {
        Self {
            sources: Sources::Auto,
            node: None,
            kubeconfig: None,
            jitter_seconds: 10,
            kubelet: KubeletConfig::default(),
            cri: CriConfig::default(),
            runtime: RuntimeConfig::default(),
        }
    }
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Self {
            // containerd as packaged, of k3s and RKE2, and of MicroK8s.
            containerd: paths(&[
                "/run/containerd",
                "/run/k3s/containerd",
                "/var/snap/microk8s/common/run/containerd",
            ]),
            crio: paths(&["/run/containers/storage"]),
            docker: paths(&["/var/lib/docker"]),
            podman: paths(&["/var/lib/containers/storage"]),
        }
    }
}

const AUTO: &str = "auto";

impl Serialize for Sources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => [AUTO].serialize(serializer),
            Self::Only(kinds) => kinds.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Sources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names: Vec<String> = Vec::deserialize(deserializer)?;
        if names == [AUTO] {
            return Ok(Self::Auto);
        }
        let mut kinds: Vec<SourceKind> = Vec::new();
        for name in names {
            let kind = SourceKind::ALL.into_iter().find(|kind| kind.name() == name);
            let kind = kind.ok_or_else(|| D::Error::custom(unknown(&name)))?;
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        Ok(Self::Only(kinds))
    }
}

fn unknown(name: &str) -> String {
    if name == AUTO {
        return "\"auto\" cannot be combined with other sources".to_owned();
    }
    let known = SourceKind::ALL.map(SourceKind::name).join(", ");
    format!("{name:?} is not a source of pod names: use auto, {known}")
}

/// An hour is longer than any rollout needs.
fn jitter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let seconds = u64::deserialize(deserializer)?;
    if seconds > 3600 {
        return Err(D::Error::custom(format!("{seconds} is not between 0 and 3600")));
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PodsConfig, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_section_is_the_default_and_survives_a_round_trip() {
        assert_eq!(parse("").expect("empty"), PodsConfig::default());
        let text = toml::to_string(&PodsConfig::default()).expect("text");
        assert_eq!(parse(&text).expect("what was written"), PodsConfig::default());
    }

    #[test]
    fn sources_are_auto_or_a_set() {
        let sources = |text: &str| parse(&format!("sources = {text}")).map(|config| config.sources);
        assert_eq!(sources(r#"["auto"]"#), Ok(Sources::Auto));
        let two = Sources::Only(vec![SourceKind::Kubelet, SourceKind::Runtime]);
        assert_eq!(sources(r#"["kubelet", "runtime", "kubelet"]"#), Ok(two));
        assert_eq!(sources("[]"), Ok(Sources::Only(vec![])));
        let error = sources(r#"["auto", "cri"]"#).expect_err("auto and more");
        assert!(error.contains("cannot be combined"), "{error}");
        let error = sources(r#"["docker"]"#).expect_err("no such source");
        assert!(error.contains("kubernetes, kubelet, cri, runtime"), "{error}");
    }

    #[test]
    fn unknown_keys_and_long_jitters_are_refused() {
        for text in
            ["socket = '/x'", "[kubelet]\nverify = false", "[cri]\npath = '/x'", "jitter_seconds = 3601"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
