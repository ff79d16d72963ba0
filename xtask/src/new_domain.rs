//! `cargo xtask new-domain`: follows the guide "Add a domain" of CONTRIBUTING in a copy of the repository,
//! and tests the result there. So the guide stays true.
//!
//! The domain counts started programs. Its own files are in `xtask/new_domain`, under the paths that they get
//! in the copy; [`EDITS`] are the lines that other files need.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::{cmd, paths, say, tidy};

const DOMAIN: &str = "exec";
const OWN: &str = "xtask/new_domain";

/// What the domain adds to an existing file.
struct Edit {
    file: &'static str,
    change: Change,
}

enum Change {
    /// Lines before this one.
    Before(&'static str, &'static str),
    /// Lines after this one.
    After(&'static str, &'static str),
    /// The next number in the line that begins so.
    Next(&'static str),
}
use Change::{After, Before, Next};

/// In the order of the guide.
const EDITS: [Edit; 14] = [
    edit("sysprobe-common/src/lib.rs", Before("pub mod hist;", "pub mod exec;")),
    edit("sysprobe-agent/src/probe.rs", Before("mod map;", "pub(crate) mod exec;")),
    edit("sysprobe-agent/src/probe.rs", After("    reclaim::PROBE,", "    exec::PROBE,")),
    edit("sysprobe-agent/src/domain.rs", Before("pub mod memory;", "pub mod exec;")),
    edit(
        "sysprobe-agent/src/domain.rs",
        After("    Row::of::<reclaim::Reclaim>(),", "    Row::of::<exec::Exec>(),"),
    ),
    edit("sysprobe-agent/src/snapshot.rs", Before("mod histogram;", "mod exec;")),
    edit(
        "sysprobe-agent/src/snapshot.rs",
        After("pub use cpu::{CpuSample, Throttling};", "pub use exec::ExecSample;"),
    ),
    edit("sysprobe-agent/src/snapshot.rs", Next("pub const VERSION: u32 = ")),
    edit(
        "sysprobe-agent/src/snapshot/workload.rs",
        After("    pub reclaim: Option<ReclaimSample>,", "    pub exec: Option<super::ExecSample>,"),
    ),
    edit(
        "sysprobe-agent/src/snapshot/workload.rs",
        After("            reclaim: None,", "            exec: None,"),
    ),
    edit("sysprobe-agent/src/metrics/table.rs", Before("mod memory;", "mod exec;")),
    edit(
        "sysprobe-agent/src/metrics/table.rs",
        After("        .chain(reclaim::RECLAIM)", "        .chain(exec::EXEC)"),
    ),
    edit("deploy/sysprobe.toml", After("reclaim = true", "# Programs that tasks start.\nexec = true")),
    edit(
        "ARCHITECTURE.md",
        Before(
            "## Attach modes",
            "## exec: started programs\n\nOne program at `sched_process_exec` counts.\n",
        ),
    ),
];

/// The last commands of the guide.
const COMMANDS: [&[&str]; 3] = [&["docs"], &["check"], &["test", DOMAIN]];

const fn edit(file: &'static str, change: Change) -> Edit {
    Edit { file, change }
}

pub(crate) fn main() -> Result<()> {
    let copy = paths::root().join("target/new-domain");
    say::step(format_args!("Adding a domain to a copy of the repository in {}.", copy.display()));
    write(&copy, &with_domain(paths::root())?)?;
    for arguments in COMMANDS {
        say::step(format_args!("Running `cargo xtask {}` there.", arguments.join(" ")));
        let mut cargo = cmd::cargo();
        cargo.arg("xtask").args(arguments).current_dir(&copy);
        cmd::run(cargo.env_remove("CARGO_TARGET_DIR"))?;
    }
    say::step("The new domain works.");
    Ok(())
}

/// Every file of the repository with the domain added, by its path.
fn with_domain(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = read(root)?;
    for Edit { file, change } in &EDITS {
        let text = files.get_mut(Path::new(file)).with_context(|| format!("{file} is missing"))?;
        let edited = change.apply(&String::from_utf8_lossy(text));
        *text = edited.with_context(|| format!("editing {file}"))?.into_bytes();
    }
    files.extend(read(&root.join(OWN))?);
    Ok(files)
}

fn read(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let files = tidy::files(root)?.into_iter().map(|path| -> Result<_> {
        let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok((path.strip_prefix(root)?.to_owned(), text))
    });
    files.collect()
}

/// Leaves files alone that are right, so that what was built of them stays valid.
fn write(copy: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    fs::create_dir_all(copy)?;
    let known = read(copy)?;
    for gone in known.keys().filter(|name| !files.contains_key(*name)) {
        fs::remove_file(copy.join(gone))?;
    }
    for (name, text) in files.iter().filter(|(name, text)| known.get(*name) != Some(*text)) {
        let path = copy.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        fs::set_permissions(&path, permissions(name)?)?;
    }
    Ok(())
}

/// Those of the original.
fn permissions(name: &Path) -> Result<fs::Permissions> {
    let originals = [paths::root().join(name), paths::root().join(OWN).join(name)];
    let original = originals.into_iter().find(|path| path.exists());
    let original = original.with_context(|| format!("{} has no original", name.display()))?;
    Ok(fs::metadata(original)?.permissions())
}

impl Change {
    fn apply(&self, text: &str) -> Result<String> {
        let fits = |line: &str| match self {
            Before(known, _) | After(known, _) => line == *known,
            Next(begin) => line.starts_with(begin),
        };
        let times = text.lines().filter(|line| fits(line)).count();
        ensure!(times == 1, "{times} lines fit {:?}", self.line());
        let lines = text.lines().map(|line| match self {
            _ if !fits(line) => Ok(line.to_owned()),
            Before(_, added) => Ok(format!("{added}\n{line}")),
            After(_, added) => Ok(format!("{line}\n{added}")),
            Next(begin) => {
                let number: u32 = line[begin.len()..].trim_end_matches(';').parse()?;
                Ok(format!("{begin}{};", number + 1))
            }
        });
        let lines = lines.collect::<Result<Vec<_>>>()?;
        Ok(lines.join("\n") + "\n")
    }

    const fn line(&self) -> &'static str {
        match self {
            Before(line, _) | After(line, _) | Next(line) => line,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const GUIDE: &str = "CONTRIBUTING.md";
    const HEADING: &str = "## Add a domain";

    /// The files that the domain adds or changes, with `NAME` for its name.
    fn touched() -> BTreeSet<String> {
        let own = read(&paths::root().join(OWN)).unwrap().into_keys();
        let own = own.map(|path| path.display().to_string().replace(&format!("/{DOMAIN}"), "/NAME"));
        own.chain(EDITS.iter().map(|edit| edit.file.to_owned())).collect()
    }

    #[test]
    fn the_guide_names_every_file_that_the_domain_touches() {
        let page = fs::read_to_string(paths::root().join(GUIDE)).unwrap();
        let guide = page.split(HEADING).nth(1).unwrap().split("\n## ").next().unwrap();
        let names = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let named: BTreeSet<String> = names.map(str::to_owned).collect();
        assert_eq!(named, touched());
        for command in COMMANDS {
            let command = format!("cargo xtask {}", command.join(" ")).replace(DOMAIN, "NAME");
            assert!(guide.contains(&command), "{command}");
        }
    }

    #[test]
    fn the_edits_fit_the_files() {
        with_domain(paths::root()).unwrap();
    }

    #[test]
    fn a_change_applies_to_exactly_one_line() {
        assert_eq!(Before("b", "c").apply("a\nb\n").unwrap(), "a\nc\nb\n");
        assert_eq!(After("a", "c").apply("a\nb\n").unwrap(), "a\nc\nb\n");
        assert_eq!(Next("n = ").apply("a\nn = 9;\n").unwrap(), "a\nn = 10;\n");
        assert!(After("b", "c").apply("a\n").is_err() && After("b", "c").apply("b\nb\n").is_err());
    }
}
