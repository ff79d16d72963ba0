//! `cargo xtask tidy`: the repository's own rules that no linter knows.
//!
//! [`files`] reads the tree, [`faults`] judges one file by its name and text, and `layers` judges how modules
//! use each other, so the rules are tested on strings.

mod layers;
mod modules;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{paths, say};

/// A file that is longer does more than one thing.
const MAX_LINES: usize = 400;

/// Tests come with their tables of cases.
const MAX_TEST_LINES: usize = 600;

/// Pages that a newcomer looks for.
const PAGES: [&str; 3] = ["README.md", "ARCHITECTURE.md", "SECURITY.md"];

/// Written by hand, hence held to the rules for text. Recorded data is kept as it was found.
const TEXTS: [&str; 7] = ["rs", "toml", "md", "yaml", "yml", "sh", "run"];

/// Pages whose prose is held to these rules: what a newcomer reads first.
const PROSE: [&str; 16] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/grafana/README.md",
    "deploy/helm/README.md",
    "deploy/kustomize/README.md",
    "deploy/prometheus/README.md",
    "docs/README.md",
    "docs/adr/",
    "docs/commands/",
    "docs/comparison.md",
    "docs/install.md",
    "docs/limitations.md",
    "docs/runbook/",
    "docs/troubleshooting.md",
];

/// A line of prose on such a page has at most so many columns.
const PROSE_COLUMNS: usize = 100;
/// A line of Rust has at most so many columns, as in `rustfmt.toml`.
const RUST_COLUMNS: usize = 110;

/// Words that hide who acts, in every page and comment: the subject has a name.
const VAGUE: [&str; 3] = ["nobody", "somebody", "whoever"];

/// What must not be committed, put together here so that this file may be.
const FORBIDDEN: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("../", "shared"), concat!(".lib", "rary")];

pub(crate) fn main() -> Result<()> {
    say::step("Checking the repository's own rules.");
    let root = paths::root();
    let missing = PAGES.iter().filter(|page| !root.join(page).exists());
    let mut found: Vec<String> = missing.map(|page| format!("{page}: is missing")).collect();
    let (mut page, mut sources) = (String::new(), Vec::new());
    for path in files(root)? {
        let name = path.strip_prefix(root).expect("the walk stays below the root");
        // What is not text has no lines to judge.
        if let Ok(text) =
            String::from_utf8(fs::read(&path).with_context(|| format!("reading {}", path.display()))?)
        {
            found.extend(faults(name, &text));
            match name.extension().and_then(OsStr::to_str) {
                Some("rs") => sources.push((name.to_owned(), text)),
                _ if name == Path::new(layers::PAGE) => page = text,
                _ => {}
            }
        }
    }
    found.extend(layers::faults(&page, &sources));
    found.iter().for_each(say::step);
    if !found.is_empty() {
        bail!("{} breaches of the repository's rules, listed above", found.len());
    }
    Ok(())
}

/// What is wrong with one file.
fn faults(name: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for word in FORBIDDEN.iter().filter(|word| line.contains(**word)) {
            found.push(format!("{}:{number}: mentions {word}", name.display()));
        }
        if is_text(name) && line.trim_end() != line {
            found.push(format!("{}:{number}: ends in white space", name.display()));
        }
    }
    if name.extension().is_some_and(|extension| extension == "rs") {
        found.extend(rust_faults(name, text));
    }
    found.extend(prose_faults(name, text));
    found
}

fn prose_faults(name: &Path, text: &str) -> Vec<String> {
    let is_narrow = PROSE.iter().any(|page| name.to_string_lossy().starts_with(page));
    let mut found = Vec::new();
    for (number, line) in prose(name, text) {
        // Tables and links that do not fit a line are left alone.
        let may_be_wide = line.starts_with('|') || line.contains("](") || line.starts_with("<!--");
        if is_narrow && !may_be_wide && line.chars().count() > PROSE_COLUMNS {
            found.push(format!("{}:{number}: is longer than {PROSE_COLUMNS} columns", name.display()));
        }
        let lower = line.to_lowercase();
        let words: Vec<&str> = lower.split(|letter: char| !letter.is_alphanumeric()).collect();
        for word in VAGUE.iter().filter(|word| words.contains(word)) {
            found.push(format!("{}:{number}: says `{word}`: name the subject", name.display()));
        }
    }
    found
}

/// The numbered lines of a page outside of fenced blocks, or the comments of another text.
fn prose<'a>(name: &Path, text: &'a str) -> Vec<(usize, &'a str)> {
    let lines = (1..).zip(text.lines());
    let kind = name.extension().unwrap_or_default();
    if kind == "md" {
        let mut in_block = false;
        let is_prose = |(_, line): &(usize, &str)| {
            let is_fence = line.trim_start().starts_with("```");
            in_block ^= is_fence;
            !in_block && !is_fence
        };
        return lines.filter(is_prose).collect();
    }
    let comment = if kind == "rs" { "//" } else { "#" };
    lines.filter(|(_, line)| is_text(name) && line.trim_start().starts_with(comment)).collect()
}

fn rust_faults(name: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        found.push(format!("{}: does not start with `//!` and what the file is for", name.display()));
    }
    // rustfmt leaves strings and comments as they are.
    for (number, _) in (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > RUST_COLUMNS) {
        found.push(format!("{}:{number}: is longer than {RUST_COLUMNS} columns", name.display()));
    }
    let (lines, limit) = (text.lines().count(), if is_test(name) { MAX_TEST_LINES } else { MAX_LINES });
    if lines > limit {
        found.push(format!("{}: has {lines} lines, more than {limit}", name.display()));
    }
    found
}

fn is_test(name: &Path) -> bool {
    name.components().any(|part| part.as_os_str() == "tests") || name.ends_with("tests.rs")
}

fn is_text(name: &Path) -> bool {
    let kind = name.extension().or(name.file_name()).unwrap_or_default();
    TEXTS.iter().any(|text| kind == *text)
}

/// Whether a directory is git's, or cargo's for a package or workspace. A module may be named `target`, too.
fn is_no_source(parent: &Path, name: &OsStr) -> bool {
    name == ".git" || name == "target" && parent.join("Cargo.toml").exists()
}

/// Every file of the source tree, in a fixed order.
pub(crate) fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && !is_no_source(dir, &entry.file_name()) {
            found.extend(files(&entry.path())?);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
