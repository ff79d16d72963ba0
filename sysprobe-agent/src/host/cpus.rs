//! How many CPUs there are and can be.

use schemars::JsonSchema;
use serde::Serialize;

/// CPU numbers go up to `possible - 1`; `online` is where a program can run now.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Cpus {
    /// How many there can be.
    pub possible: u32,
    /// The numbers of those that can run something now.
    pub online: Vec<u32>,
}

impl Cpus {
    pub(super) fn collect() -> Self {
        let online = read_list("online");
        let highest = read_list("possible").into_iter().max().or(online.iter().copied().max()).unwrap_or(0);
        Self { possible: highest + 1, online }
    }
}

/// CPUs come and go; the agent asks again whenever it wants to reach all of them.
#[must_use]
pub fn online() -> Vec<u32> {
    read_list("online")
}

fn read_list(name: &str) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/sys/devices/system/cpu/{name}")).unwrap_or_default();
    parse_list(&list)
}

/// The kernel's list format: `0-3,8,10-11`.
fn parse_list(list: &str) -> Vec<u32> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_ranges_and_single_numbers() {
        assert_eq!(parse_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_list("0\n"), [0]);
        assert!(parse_list("\n").is_empty());
    }
}
