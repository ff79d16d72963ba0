//! Podman: the index of its storage, `ROOT/overlay-containers/containers.json`, the only file that has names.

use std::path::Path;

use serde::Deserialize;

use super::{Found, read};
use crate::pods::id::ContainerId;
use crate::pods::pod::text;

#[derive(Deserialize)]
struct Container {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

pub(super) fn look_up(root: &Path, id: ContainerId) -> Option<Found> {
    let containers = root.join("overlay-containers");
    let id = id.to_string();
    // Looks for the container's directory first, because most ids are not Podman's.
    if !containers.join(&id).exists() {
        return None;
    }
    let index: Vec<Container> = read(&containers.join("containers.json"))?;
    let name = index.into_iter().find(|container| container.id == id)?.names.into_iter().next()?;
    Some(Found::Plain(text(&name)))
}
