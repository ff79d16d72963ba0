//! Derives a cgroup's name from its path alone: container, systemd unit, or the path itself.
//!
//! Pure. The text is not trusted: a process that may create cgroups chooses their names. A container can
//! only create cgroups below its own, so the outermost container of a path counts. Names are bounded and
//! printable. The path has the ids of the container and the pod, not their names.

use std::ops::RangeInclusive;

use crate::snapshot::WorkloadKind;

/// Longer names are cut. A systemd unit or a file name has 255 bytes at most, and `user@0.service/` may
/// precede it.
pub const NAME_MAX: usize = 512;

/// What the path of a cgroup says about the workload it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The container's id, or `lxc/NAME`; the unit, or `user@UID.service/UNIT`; the path.
    pub name: String,
    /// `Container`, `Unit` or `Path`.
    pub kind: WorkloadKind,
    /// The 64 digits of the runtime's id; `None` for LXC.
    pub container_id: Option<String>,
    /// With dashes, as the API writes it; 32 digits without dashes for a static pod.
    pub pod_uid: Option<String>,
    /// Whether this is the cgroup of the whole workload, the one with its limits and totals: not a part of
    /// it, and not a monitor beside a pod's containers.
    pub is_top: bool,
}

/// `path` starts at the root of the hierarchy.
#[must_use]
pub fn name_of(path: &str) -> Name {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let container = (0..parts.len()).find_map(|at| container_at(&parts, at));
    let outside = container.as_ref().map_or(parts.len(), |container| container.depth);
    let pod = parts[..outside].iter().enumerate().find_map(|(at, part)| Some((at, pod_uid(part)?)));
    // Below a pod's own cgroup there may be others than containers, such as those of CRI-O's monitors.
    let is_below_pod = pod.as_ref().is_some_and(|(at, _)| at + 1 < parts.len());
    let pod_uid = pod.map(|(_, uid)| uid);
    if let Some(container) = container {
        return Name {
            name: container.name,
            kind: WorkloadKind::Container,
            container_id: container.id,
            pod_uid,
            is_top: container.depth == parts.len(),
        };
    }
    let (name, kind, is_top) = match unit_of(&parts) {
        Some((name, is_top)) => (name, WorkloadKind::Unit, is_top),
        None if parts.is_empty() => ("/".to_owned(), WorkloadKind::Path, true),
        None => (printable(path), WorkloadKind::Path, true),
    };
    Name { name, kind, container_id: None, pod_uid, is_top: is_top && !is_below_pod }
}

struct Container {
    name: String,
    id: Option<String>,
    /// The number of path components down to its cgroup.
    depth: usize,
}

fn container_at(parts: &[&str], at: usize) -> Option<Container> {
    let part = parts[at];
    let before = at.checked_sub(1).map(|before| parts[before]);
    // With Podman's cgroupfs driver, the pod's own cgroup is a bare id as well. Its containers are
    // `libpod-ID` below it.
    if let Some(id) = container_id(part)
        && !(before == Some("libpod_parent") && part.len() == ID_LENGTH)
    {
        return Some(Container { name: id.to_owned(), id: Some(id.to_owned()), depth: at + 1 });
    }
    // LXC: `lxc.payload.NAME` since 4.0, `lxc.payload/NAME` in 3.1, `lxc/NAME` before and on Proxmox. Units
    // inside may have the same names as the host's.
    let name = match before {
        Some("lxc" | "lxc.payload") => part,
        _ => part.strip_prefix("lxc.payload.").filter(|name| !name.is_empty())?,
    };
    Some(Container { name: printable(&format!("lxc/{name}")), id: None, depth: at + 1 })
}

const ID_LENGTH: usize = 64;

/// `ID`, `RUNTIME-ID`, `RUNTIME-ID.scope`, and `SLICE:RUNTIME:ID`, which a runtime makes from systemd's
/// syntax when it uses cgroupfs itself. `kata_ID` is the sandbox of a pod in a virtual machine. The monitor
/// process of CRI-O and Podman (`…-conmon-ID.scope`) is outside of the container.
fn container_id(part: &str) -> Option<&str> {
    let stem = part.strip_suffix(".scope").unwrap_or(part);
    let (runtime, id) = stem.rsplit_once(['-', ':', '_']).unwrap_or(("", stem));
    let is_id = id.len() == ID_LENGTH && id.bytes().all(is_lower_hex);
    (is_id && !runtime.ends_with("conmon")).then_some(id)
}

/// `podUID` (cgroupfs) or `kubepods-QOS-podUID.slice` (systemd). In a slice's name a dash separates levels,
/// so the dashes of the UID become underscores.
fn pod_uid(part: &str) -> Option<String> {
    let uid = match part.split_once(".slice") {
        Some((slice, "")) => kubepods_slice(slice)?,
        Some((slice, rest)) if rest.starts_with(':') => kubepods_slice(slice)?,
        _ => part.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    let groups: Vec<&str> = uid.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_hex = groups.iter().all(|group| group.bytes().all(is_lower_hex));
    // A static pod's UID is a hash of its manifest, without dashes.
    (is_hex && (lengths == [8, 4, 4, 4, 12] || lengths == [32])).then_some(uid)
}

fn kubepods_slice(slice: &str) -> Option<&str> {
    let (parent, uid) = slice.split_once("-pod")?;
    parent.contains("kubepods").then_some(uid)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The units on the path, and the slice if the path ends in one. A unit inside another is named after both,
/// because a user's `dbus.service` and `init.scope` are not the system's.
fn unit_of(parts: &[&str]) -> Option<(String, bool)> {
    const UNITS: [&str; 5] = ["service", "scope", "socket", "mount", "swap"];
    let last = parts.len().checked_sub(1)?;
    let mut named: Vec<usize> = (0..=last)
        .filter(|at| {
            UNITS.contains(&unit_type(parts[*at])) || *at == last && unit_type(parts[*at]) == "slice"
        })
        .collect();
    // A machine is one unit, however the systemd inside it divides its subtree.
    if parts[0] == "machine.slice" && named.len() > 1 {
        named.truncate(1);
    }
    let top = *named.last()?;
    let units: Vec<&str> = named.iter().map(|at| parts[*at]).collect();
    Some((printable(&units.join("/")), top == last))
}

fn unit_type(part: &str) -> &str {
    match part.rsplit_once('.') {
        Some((stem, unit_type)) if !stem.is_empty() => unit_type,
        _ => "",
    }
}

/// Cuts text to `NAME_MAX` bytes and replaces characters that could control a terminal or a log.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len().min(NAME_MAX));
    for character in text.chars() {
        let character = if is_unprintable(character) { char::REPLACEMENT_CHARACTER } else { character };
        if printable.len() + character.len_utf8() > NAME_MAX {
            break;
        }
        printable.push(character);
    }
    printable
}

/// Whether a character is a control character or invisible. Some invisible ones reorder the text around them;
/// others make two names look the same.
fn is_unprintable(character: char) -> bool {
    character.is_control() || INVISIBLE.iter().any(|range| range.contains(&character))
}

/// All of Unicode's format characters (category Cf), its line and paragraph separators, and the other
/// characters that fonts do not show (`Default_Ignorable_Code_Point`), as of version 17.
const INVISIBLE: [RangeInclusive<char>; 25] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

#[cfg(test)]
mod tests;
