//! Checks the examples of `docs/install.md`. The chart is rendered with the arguments of each helm command
//! and with each value that the page names. The page's kustomization is built with this repository's
//! manifests in place of a server's.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::render;
use super::tools::Tools;
use crate::cmd::output;
use crate::{paths, say};

const PAGE: &str = "docs/install.md";

pub(super) fn all(tools: &Tools) -> Result<()> {
    let page = fs::read_to_string(paths::root().join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    installed(tools, &page)?;
    let values = values(&page);
    ensure!(values.len() > 5, "{PAGE} names only {values:?}");
    for value in &values {
        let made = output(render::template(tools, "sysprobe").args(["--set", render::IMAGE, "--set", value]));
        made.with_context(|| format!("{PAGE}: {value}"))?;
    }
    kustomized(tools, &page)?;
    say::step(format_args!(
        "The commands, {} values and the kustomization of {PAGE} are right.",
        values.len()
    ));
    Ok(())
}

fn installed(tools: &Tools, page: &str) -> Result<()> {
    let lines = blocks(page, "sh");
    let installs: Vec<_> = lines.iter().filter_map(|line| Some((line, installing(line)?))).collect();
    ensure!(!installs.is_empty(), "{PAGE} installs nothing");
    for (line, arguments) in installs {
        let mut helm = tools.command("helm");
        helm.arg("template").args(arguments).current_dir(paths::root());
        let made = output(&mut helm).with_context(|| format!("{PAGE}: {line}"))?;
        ensure!(made.contains("kind: DaemonSet"), "{PAGE}: {line} makes no DaemonSet");
    }
    Ok(())
}

/// The arguments of a command that installs a chart; `None` for any other command.
fn installing(line: &str) -> Option<Vec<String>> {
    let words = shlex::split(line)?;
    match &*words.iter().map(String::as_str).collect::<Vec<_>>() {
        ["helm", "install", arguments @ ..] | ["helm", "upgrade", "--install", arguments @ ..] => {
            Some(arguments.iter().map(|&word| word.to_owned()).collect())
        }
        _ => None,
    }
}

/// The values in the second column of the page's table, as `--set` arguments.
fn values(page: &str) -> Vec<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
    let codes = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let values = codes.filter(|code| code.contains('=') && !code.contains(' '));
    values.map(|code| code.trim_matches('\'').to_owned()).collect()
}

/// Builds the page's kustomization, which replaces the manifests' `ConfigMap` and image.
fn kustomized(tools: &Tools, page: &str) -> Result<()> {
    let text = blocks(page, "yaml").join("\n");
    let server = text.lines().find(|line| line.contains("//deploy/kustomize/base?ref="));
    let server = server.with_context(|| format!("{PAGE} has no kustomization of its own"))?;
    let here = paths::root().join("target/chart/kustomization");
    fs::create_dir_all(&here)?;
    fs::write(here.join("kustomization.yaml"), text.replace(server, "  - ../../../deploy/kustomize/base"))?;
    fs::write(here.join("sysprobe.toml"), "slots = 4096\n")?;
    let made = output(tools.command("kustomize").arg("build").arg(&here)).with_context(|| PAGE.to_owned())?;
    for part in ["image: registry.example.org/sysprobe:0.1.0", "slots = 4096", "name: sysprobe-"] {
        ensure!(made.contains(part), "{PAGE}: the kustomization makes nothing with `{part}`");
    }
    Ok(())
}

/// The lines of the code blocks of one language, with continued lines joined.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continued_lines_are_one() {
        assert_eq!(blocks("a\n```sh\nb \\\n  c\nd\n```\ne\n```yaml\nf\n```\n", "sh"), ["b    c", "d"]);
    }

    #[test]
    fn what_installs_is_found_in_both_forms() {
        let arguments = |line: &str| installing(line).unwrap_or_default();
        assert_eq!(arguments("helm install a chart --set 'b={C}'"), ["a", "chart", "--set", "b={C}"]);
        assert_eq!(arguments("helm upgrade --install a chart  # amd64"), ["a", "chart"]);
        for other in ["helm", "helm upgrade a chart", "helm uninstall a", "kubectl get pods"] {
            assert_eq!(installing(other), None, "{other}");
        }
    }

    #[test]
    fn values_are_those_of_the_table() {
        let page = "`x=1`\n| for | set |\n| one | `a.b=true`, `'c={D}'` and `sysctl e=2` |\n| two | \
                    `--set-file f` |\n";
        assert_eq!(values(page), ["a.b=true", "c={D}"]);
    }
}
