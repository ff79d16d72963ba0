//! The names of what is made outside of this program, by which a later run finds what a killed one has left.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::cgroup;

/// The process that made it follows, then what it is for.
const PREFIX: &str = "sysprobe-overhead-";

pub(super) fn name(role: &str) -> String {
    format!("{PREFIX}{}-{role}", std::process::id())
}

/// Removes the cgroups and the files of runs that were killed.
pub(super) fn sweep() -> Result<()> {
    for root in cgroup::roots()? {
        // A cgroup with a process in it stays, and harms no later run.
        left_in(&root, |path| drop(fs::remove_dir(path)));
    }
    left_in(&std::env::temp_dir(), |path| drop(fs::remove_dir_all(path)));
    Ok(())
}

fn left_in(directory: &Path, mut remove: impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(maker);
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove(&entry.path());
        }
    }
}

fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_maker() {
        assert_eq!(maker(&name("server")), Some(std::process::id()));
        assert_eq!(maker("system.slice"), None);
    }

    #[test]
    fn only_what_the_dead_have_left_is_removed() {
        let directory = std::env::temp_dir().join(name("sweep"));
        // No process has the highest number there is.
        let dead = format!("{PREFIX}{}-server", u32::MAX);
        for made in [&*dead, &*name("server"), "other"] {
            fs::create_dir_all(directory.join(made)).unwrap();
        }
        let mut removed = Vec::new();
        left_in(&directory, |path| removed.push(path.file_name().unwrap().to_owned()));
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(removed, [dead.as_str()]);
    }
}
