//! Network namespaces and devices of tests.

use super::{is_left_over, is_ours, printed, succeeds};

pub(super) fn remove() -> Vec<String> {
    let namespaces = printed("ip", &["netns", "list"]);
    let namespaces =
        namespaces.lines().filter_map(|line| line.split(' ').next()).filter(|name| is_left_over(name));
    let mut removed: Vec<String> = namespaces
        .filter(|name| succeeds("ip", &["netns", "del", name]))
        .map(|name| format!("network namespace {name}"))
        .collect();
    let devices = printed("ip", &["-brief", "link", "show", "type", "veth"]);
    let ours = devices.lines().filter_map(device).filter(|(_, owner)| !is_ours(*owner));
    removed.extend(
        ours.filter(|(name, _)| succeeds("ip", &["link", "del", name]))
            .map(|(name, _)| format!("device {name}")),
    );
    removed
}

/// Returns `sp17` for `sp17@sp17p  DOWN ...`. A device name is too short for the full prefix, so the peer's
/// name is checked as well.
fn device(line: &str) -> Option<(&str, u32)> {
    let (name, peer) = line.split(' ').next()?.split_once('@')?;
    let is_ours = peer.strip_suffix('p') == Some(name);
    name.strip_prefix("sp")?.parse().ok().filter(|_| is_ours).map(|owner| (name, owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_tells_its_owner() {
        assert_eq!(device("sp17@sp17p       DOWN           9a:5f <BROADCAST>"), Some(("sp17", 17)));
        assert_eq!(device("sp17p@sp17       DOWN           9a:5f <BROADCAST>"), None);
        assert_eq!(device("sp0@eth0         UP             9a:5f <BROADCAST>"), None);
        assert_eq!(device("eth0             UP             9a:5f <BROADCAST>"), None);
    }
}
