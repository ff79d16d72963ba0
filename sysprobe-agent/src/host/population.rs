//! Upper bounds of the number of tasks and sockets, which also bound the values stored for them.

use std::path::Path;

/// The current upper bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    pub tasks: u64,
    pub sockets: u64,
}

/// The kernel's slab caches of Internet sockets. Caches whose objects are freed by RCU are never merged with
/// others (`SLAB_NEVER_MERGE`).
const CACHES: [&str; 9] = ["TCP", "TCPv6", "UDP", "UDPv6", "UDP-Lite", "UDPLITEv6", "RAW", "RAWv6", "PING"];

impl Population {
    #[must_use]
    pub fn read() -> Self {
        Self { tasks: tasks(&read("/proc/loadavg")), sockets: sockets(Path::new("/sys/kernel/slab")) }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The fourth field of `/proc/loadavg` is `RUNNING/ALL`. No bound if it cannot be read.
fn tasks(loadavg: &str) -> u64 {
    let field = loadavg.split(' ').nth(3).and_then(|field| field.split_once('/'));
    field.and_then(|(_, all)| all.parse().ok()).unwrap_or(u64::MAX)
}

/// The present capacity of the caches. The kernel maintains `total_objects` as a counter, but walks lists
/// with interrupts off for `objects` and `/proc/slabinfo`. No bound if the kernel exports none (without
/// `CONFIG_SLUB_DEBUG`).
fn sockets(slab: &Path) -> u64 {
    let total = |cache: &str| {
        let text = std::fs::read_to_string(slab.join(cache).join("total_objects")).ok()?;
        text.split(' ').next()?.trim().parse::<u64>().ok()
    };
    let known: Vec<u64> = CACHES.iter().filter_map(|cache| total(cache)).collect();
    if known.is_empty() { u64::MAX } else { known.iter().sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_bounds_nothing() {
        assert_eq!(tasks("0.10 0.20 0.30 2/345 6789\n"), 345);
        assert_eq!(tasks(""), u64::MAX);
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(sockets(directory.path()), u64::MAX);
        for (cache, text) in [("TCP", "26 N0=26\n"), ("UDPv6", "44\n")] {
            std::fs::create_dir(directory.path().join(cache)).expect("made");
            std::fs::write(directory.path().join(cache).join("total_objects"), text).expect("written");
        }
        assert_eq!(sockets(directory.path()), 70);
    }
}
