//! `cargo xtask docs`: generates the pages that come from the agent's own tables.
//!
//! The agent prints them (`sysprobe docs PAGE`, `sysprobe schema DOCUMENT`), so a page always matches the
//! program.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{build, cmd, paths, say};

const PAGES: [&str; 4] = ["json", "metrics", "probes", "rights"];
/// Pages written by hand except for a part between two comments: this one, and one for each command.
const KERNELS: &str = "docs/kernels.md";
const COMMANDS: [&str; 9] = ["agent", "top", "io", "net", "blame", "latency", "use", "probes", "check"];
const PART_BEGINS: &str = "by `cargo xtask docs`; edit that. -->\n";
const PART_ENDS: &str = "<!-- The end of the table. -->";

/// Documents of `-o json` that have a schema; a test of the agent checks that the list is complete.
const SCHEMAS: [&str; 9] = ["top", "io", "net", "top-latency", "blame", "latency", "use", "probes", "check"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail if a page differs from the tables
    #[arg(long)]
    check: bool,
}

impl Args {
    pub(crate) fn checking() -> Self {
        Self { check: true }
    }
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let program = build::debug()?;
    let mut stale = Vec::new();
    for Made { path, arguments, is_part } in made() {
        let file = paths::root().join(&path);
        let old = fs::read_to_string(&file).unwrap_or_default();
        let mut new = generate(&program, &arguments)?;
        if is_part {
            new = with_part(&old, &new)
                .with_context(|| format!("{path} has lost the comments around what is made"))?;
        }
        if old == new {
            continue;
        }
        let place = first_difference(&old, &new);
        if args.check {
            stale.push(format!("{path} ({place})"));
        } else {
            fs::write(&file, new).with_context(|| format!("writing {}", file.display()))?;
            say::step(format_args!("Wrote {path} ({place})."));
        }
    }
    if !stale.is_empty() {
        bail!("{} no longer say what the program does: run `cargo xtask docs`", stale.join(" and "));
    }
    say::step("The pages under docs/ are what the tables say.");
    Ok(())
}

/// A generated file, or a generated part of one, and the arguments that make the agent print it.
struct Made {
    path: String,
    arguments: Vec<&'static str>,
    is_part: bool,
}

fn made() -> impl Iterator<Item = Made> {
    let whole =
        |path, arguments: [&'static str; 2]| Made { path, arguments: arguments.to_vec(), is_part: false };
    let pages = PAGES.map(|page| whole(format!("docs/{page}.md"), ["docs", page]));
    let schemas = SCHEMAS.map(|name| whole(format!("docs/schema/{name}.schema.json"), ["schema", name]));
    let kernels = Made { path: KERNELS.to_owned(), arguments: vec!["docs", "kernels"], is_part: true };
    let commands = COMMANDS.map(|name| Made {
        path: format!("docs/commands/{name}.md"),
        arguments: vec!["docs", "command", name],
        is_part: true,
    });
    pages.into_iter().chain(schemas).chain([kernels]).chain(commands)
}

fn generate(program: &Path, arguments: &[&str]) -> Result<String> {
    let text = cmd::capture(cmd::tool(program).args(arguments));
    text.with_context(|| format!("`sysprobe {}` failed: run it to see why", arguments.join(" ")))
}

/// The page with the part between the two comments replaced.
fn with_part(page: &str, part: &str) -> Option<String> {
    let (before, rest) = page.split_once(PART_BEGINS)?;
    let (_, after) = rest.split_once(PART_ENDS)?;
    Some([before, PART_BEGINS, part, PART_ENDS, after].concat())
}

/// The first line where two versions of a page differ.
fn first_difference(old: &str, new: &str) -> String {
    let same = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("nothing").to_owned();
    format!("line {}: `{}`, was `{}`", same + 1, line(new), line(old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_and_the_rest_stays() {
        let page = |part: &str| format!("a\n<!-- Made {PART_BEGINS}{part}{PART_ENDS}\nb\n");
        assert_eq!(with_part(&page("old\n"), "new\n"), Some(page("new\n")));
        assert_eq!(with_part("a\nb\n", "new\n"), None);
    }

    #[test]
    fn the_first_difference_is_shown() {
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), "line 2: `c`, was `b`");
        assert_eq!(first_difference("a\n", "a\nb\n"), "line 2: `b`, was `nothing`");
    }
}
