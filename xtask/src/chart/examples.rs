//! The commands of `docs/install.md`: what is to be installed by helm is rendered with the same arguments, and what is to be applied from
//! a directory is built.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::tools::{Tools, output};
use crate::{paths, say};

const PAGE: &str = "docs/install.md";

pub(super) fn all(tools: &Tools) -> Result<()> {
    let page = fs::read_to_string(paths::root().join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    let mut tried = 0;
    for line in lines(&page) {
        let words: Vec<_> = line.split_whitespace().collect();
        let mut command = match &*words {
            ["helm", "install", rest @ ..] => {
                let mut helm = tools.command("helm");
                helm.arg("template").args(rest);
                helm
            }
            ["kubectl", "apply", "-k", directory] => {
                let mut kustomize = tools.command("kustomize");
                kustomize.args(["build", directory]);
                kustomize
            }
            _ => continue,
        };
        let made = output(command.current_dir(paths::root())).with_context(|| format!("{PAGE}: {line}"))?;
        ensure!(made.contains("kind: DaemonSet"), "{PAGE}: {line} makes no DaemonSet");
        tried += 1;
    }
    ensure!(tried > 1, "{PAGE} has no commands that install anything");
    say::step(format_args!("{tried} commands of {PAGE} make what they say."));
    Ok(())
}

/// The lines of shell blocks; what is continued is one.
fn lines(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continued_lines_are_one() {
        assert_eq!(lines("a\n```sh\nb \\\n  c\nd\n```\ne\n```yaml\nf\n```\n"), ["b    c", "d"]);
    }
}
