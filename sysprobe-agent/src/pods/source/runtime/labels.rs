//! The labels of a container or the annotations of its specification. Their author is not known.

use std::collections::HashMap;
use std::sync::Arc;

use super::Found;
use crate::pods::id::ContainerId;
use crate::pods::pod::{Pod, text};

/// The keys under which a runtime stores the names.
pub(super) struct Keys {
    pub(super) namespace: &'static str,
    pub(super) pod: &'static str,
    pub(super) uid: &'static str,
    pub(super) container: &'static str,
    /// The key and the value that mark a sandbox.
    pub(super) sandbox: (&'static str, &'static str),
}

pub(super) type Labels = HashMap<String, String>;

impl Keys {
    /// The pod that the labels name. The UID in the path is the kubelet's: labels that contradict it do not
    /// come from the kubelet. Old versions of the runtimes leave the UID out.
    pub(super) fn pod(&self, labels: &Labels, id: ContainerId, pod_uid: Option<&str>) -> Option<Found> {
        let value = |key| labels.get(key).filter(|value| !value.is_empty()).map(String::as_str);
        let uid = match (value(self.uid), pod_uid) {
            (Some(label), Some(path)) if label != path => return None,
            (Some(uid), _) | (None, Some(uid)) => uid,
            (None, None) => return None,
        };
        let mut pod = Pod {
            uid: text(uid),
            namespace: text(value(self.namespace)?),
            name: text(value(self.pod)?),
            ..Pod::default()
        };
        if value(self.sandbox.0) == Some(self.sandbox.1) {
            pod.sandboxes.push(id);
        } else {
            pod.add_container(&text(value(self.container)?), None, &[id]);
        }
        Some(Found::InPod(Arc::new(pod)))
    }
}
