//! Checks that the documents match the program: the program's own argument parser accepts every command line,
//! every `toml` block is a valid configuration, and every relative link leads to an existing file and
//! heading.
//!
//! Nothing is loaded or attached, so this needs no privileges. The examples are the lines of `sh` and `bash`
//! blocks, the text after a prompt in other blocks (the rest is output), and inline code. Words in capitals
//! are placeholders.

#[path = "examples/markdown.rs"]
mod markdown;
#[path = "examples/shell.rs"]
mod shell;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use markdown::Page;
use sysprobe_agent::cli::Cli;
use sysprobe_agent::config::Config;

/// Values to try for a placeholder if the program does not accept every word.
const STAND_INS: [&str; 4] = ["1", "10ms", "/x", "127.0.0.1:1"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}

/// Every page of the repository, by its path.
fn all_pages() -> BTreeMap<PathBuf, Page> {
    fn walk(directory: &Path, pages: &mut BTreeMap<PathBuf, Page>) {
        for entry in
            fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
                walk(&path, pages);
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path).expect("text");
                let inside = path.strip_prefix(root()).expect("below the root");
                pages.insert(inside.to_owned(), Page::parse(&text));
            }
        }
    }
    let mut pages = BTreeMap::new();
    walk(root(), &mut pages);
    pages
}

/// The pages that tell a user what to type.
fn manual() -> BTreeMap<PathBuf, Page> {
    let mut pages = all_pages();
    pages.retain(|path, _| {
        *path == Path::new("README.md") || ["docs", "deploy"].iter().any(|part| path.starts_with(part))
    });
    pages
}

/// A command line of the program, without its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Example {
    words: Vec<String>,
    /// Whether the example is complete: inline code may only name a command, a block is typed as it is.
    complete: bool,
}

/// The examples of a page, with their lines.
fn examples(page: &Page) -> Vec<(usize, Example)> {
    let mut found = Vec::new();
    for block in &page.blocks {
        let all = ["sh", "bash", "shell"].contains(&&*block.language);
        for (line, text) in shell::typed(&block.text, all) {
            let commands = shell::of_program(&text).into_iter();
            found.extend(commands.map(|words| (block.line + line, Example { words, complete: true })));
        }
    }
    for (line, code) in &page.spans {
        // The program's name alone is not an example.
        let commands = shell::of_program(code).into_iter().filter(|words| !words.is_empty());
        let commands = commands.flat_map(|words| shell::alternatives(&words));
        found.extend(commands.map(|words| (*line, Example { words, complete: false })));
    }
    found
}

fn parse(words: &[String]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("sysprobe").chain(words.iter().map(String::as_str)))
}

/// The words that the program accepts, with values for placeholders; otherwise the program's error.
fn accepted(example: &Example) -> Result<Vec<String>, String> {
    let words = &example.words;
    let Err(error) = parse(words) else { return Ok(words.clone()) };
    let refused = Err(error.to_string());
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(words.clone()),
        ErrorKind::MissingRequiredArgument if !example.complete => Ok(words.clone()),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let Some(at) = placeholder(&error, words) else { return refused };
            let mut tries = stand_ins(&error).into_iter().filter_map(|stand_in| {
                let mut words = words.clone();
                words[at] = words[at].replace(word_of(&words[at]), &stand_in);
                accepted(&Example { words, complete: example.complete }).ok()
            });
            tries.next().map_or(refused, Ok)
        }
        _ => refused,
    }
}

/// The value of `--flag=VALUE`, else the word.
fn word_of(word: &str) -> &str {
    word.split_once('=').filter(|(flag, _)| flag.starts_with('-')).map_or(word, |(_, value)| value)
}

/// The position of the rejected word, if it is a placeholder.
fn placeholder(error: &clap::Error, words: &[String]) -> Option<usize> {
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidValue) else { return None };
    let stands_for_something = refused.chars().any(|letter| letter.is_ascii_uppercase())
        && !refused.chars().any(|letter| letter.is_ascii_lowercase());
    words.iter().position(|word| stands_for_something && word_of(word) == refused)
}

fn stand_ins(error: &clap::Error) -> Vec<String> {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => values.clone(),
        _ => STAND_INS.map(str::to_owned).to_vec(),
    }
}

/// The error in a combination of flags. Commands with windows check their flags first and then fail on the
/// missing BTF file, so they never do anything else.
fn wrong_together(words: &[String]) -> Option<String> {
    const WINDOWS: [&str; 7] = ["top", "io", "net", "blame", "latency", "use", "probes"];
    const WRONG_CONFIGURATION: i32 = 78;
    // An example with its own socket could find an agent and continue.
    const OF_ITS_OWN: [&str; 4] = ["--socket", "--btf", "--help", "-h"];
    let mut flags = words.iter().map(|word| word.split('=').next().unwrap_or_default());
    if !words.first().is_some_and(|first| WINDOWS.contains(&&**first))
        || flags.any(|flag| OF_ITS_OWN.contains(&flag))
    {
        return None;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_sysprobe"));
    command.args(words).stdin(Stdio::null());
    let nothing = "/nonexistent/by-the-examples";
    command.args(["--socket", nothing, "--btf", nothing]);
    let output = command.output().expect("the program can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code() != Some(WRONG_CONFIGURATION)).then_some(said)
}

/// The error in a command line.
fn fault(example: &Example) -> Option<String> {
    let words = match accepted(example) {
        Ok(words) => words,
        Err(said) => return Some(said),
    };
    // A command that is only named cannot be run.
    parse(&words).ok().and_then(|_| wrong_together(&words))
}

/// The error in inline code; [`fault_of_line`] does the same for a line of a block.
fn fault_of_span(code: &str) -> Option<String> {
    let page = Page::parse(&format!("`{code}`"));
    examples(&page).iter().find_map(|(_, example)| fault(example))
}

fn fault_of_line(line: &str) -> Option<String> {
    let page = Page::parse(&format!("```sh\n{line}\n```"));
    let examples = examples(&page);
    assert!(!examples.is_empty(), "no example is seen in: {line}");
    examples.iter().find_map(|(_, example)| fault(example))
}

#[test]
fn every_command_line_is_one_that_the_program_takes() {
    let mut judged: BTreeMap<Example, Option<String>> = BTreeMap::new();
    let (mut faults, mut pages) = (Vec::new(), BTreeSet::new());
    for (path, page) in manual() {
        for (line, example) in examples(&page) {
            pages.insert(path.clone());
            let words = example.words.join(" ");
            if let Some(said) = judged.entry(example).or_insert_with_key(fault) {
                faults.push(format!("{}:{line}: sysprobe {words}\n{said}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Checks that some examples of each kind are found at all.
    let seen = |words: &str| judged.keys().any(|example| example.words.join(" ") == words);
    for words in ["agent", "check", "blame /demo-web --once", "schema latency", "completions bash"] {
        assert!(seen(words), "sysprobe {words} is in README.md and was not found: {judged:?}");
    }
    assert!(pages.len() > 25 && judged.len() > 40, "{} of {} pages", judged.len(), pages.len());
}

#[test]
fn what_the_program_does_not_take_is_found() {
    for wrong in [
        "sysprobe tpo --once",
        "sysprobe top --onec",
        "kubectl -n monitoring exec ds/sysprobe -- sysprobe top --onec | head",
        "sudo target/release/sysprobe io --interval soon",
        "cargo xtask run -- --onec",
        "sysprobe blame --once",
        "sysprobe schema topp",
        "sysprobe check --interval 1",
        "NODE_NAME=a sysprobe agent --listen localhost",
        "sysprobe blame POD --interval 5 --window 1",
        "sysprobe top --view net --sort fsync",
        "echo none; sysprobe net --top",
    ] {
        assert!(fault_of_line(wrong).is_some(), "nothing is found wrong with: {wrong}");
    }
    for wrong in ["sysprobe tpo", "sysprobe top --view cpu|oi", "sysprobe schema topp"] {
        assert!(fault_of_span(wrong).is_some(), "nothing is found wrong with: {wrong}");
    }
}

#[test]
fn what_stands_for_something_may_stand_there() {
    for right in [
        "sysprobe blame POD --once   # why it waits",
        "sysprobe latency NAMESPACE/POD --slow THRESHOLD",
        "sysprobe schema DOCUMENT > /tmp/schema.json",
        "sysprobe agent --listen ADDRESS:PORT --socket=PATH",
        "source <(sysprobe completions bash)",
        "sysprobe top --once 2>/dev/null | head -3 && sysprobe io \\\n  --once",
        "sysprobe --help",
    ] {
        assert_eq!(fault_of_line(right), None, "{right}");
    }
    for right in ["sysprobe blame", "sysprobe top --view cpu|io|net|latency", "sysprobe schema DOCUMENT"] {
        assert_eq!(fault_of_span(right), None, "{right}");
    }
}

/// Covers the program's own help.
#[test]
fn the_examples_of_the_help_are_right_as_well() {
    let mut count = 0;
    for command in Cli::command().get_subcommands() {
        let help = command.get_long_about().map(ToString::to_string).unwrap_or_default();
        for (_, line) in shell::typed(&help, true).into_iter().filter(|(_, line)| line.starts_with("  ")) {
            for words in shell::of_program(&line) {
                let said = fault(&Example { words, complete: true });
                assert_eq!(said, None, "the help of {}: {line}", command.get_name());
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count} examples");
}

#[test]
fn every_toml_block_is_a_configuration() {
    let mut faults = Vec::new();
    for (path, page) in manual() {
        for block in page.blocks.iter().filter(|block| block.language == "toml") {
            if let Err(error) = Config::parse(&block.text, &path) {
                faults.push(format!("{}:{}: {error}", path.display(), block.line));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let wrong = Page::parse("```toml\n[domains]\nshed = false\n```");
    assert!(Config::parse(&wrong.blocks[0].text, Path::new("wrong.md")).is_err());
}

/// The broken links of a page; `pages` holds all pages.
fn broken_links(path: &Path, page: &Page, pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let fault = |target: &str| {
        let (file, anchor) =
            target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
        let Some(to) = markdown::resolve(path, file) else { return Some("leads out of the repository") };
        if to != path && !pages.contains_key(&to) && !root().join(&to).exists() {
            return Some("leads to nothing");
        }
        // Line anchors of source files are not checked.
        let headings = if file.is_empty() { Some(page) } else { pages.get(&to) };
        let is_missing = |anchor| headings.is_some_and(|page| !page.anchors.contains(anchor));
        anchor.is_some_and(is_missing).then_some("leads to no heading")
    };
    let relative = page.links.iter().filter(|(_, target)| !target.contains(':'));
    relative
        .filter_map(|(line, target)| Some(format!("{}:{line}: {target} {}", path.display(), fault(target)?)))
        .collect()
}

#[test]
fn every_relative_link_leads_somewhere() {
    let pages = all_pages();
    let count: usize = pages.values().map(|page| page.links.len()).sum();
    assert!(count > 60, "{count} links in {} pages", pages.len());
    let broken: Vec<_> = pages.iter().flat_map(|(path, page)| broken_links(path, page, &pages)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let pages =
        BTreeMap::from([(PathBuf::from("docs/a.md"), Page::parse("# One `two`, three!\n## One\n## One\n"))]);
    let links = |text: &str| broken_links(Path::new("docs/b.md"), &Page::parse(text), &pages).len();
    for right in [
        "[a](a.md#one-two-three) and [`b`](a.md#one-1)",
        "# Here\n[here](#here), ![all](../docs) and [far](https://a.example/b)",
        "`[code](none.md)`\n```text\n[code](none.md)\n```\n[a]: a.md 'title'",
    ] {
        assert_eq!(links(right), 0, "{right}");
    }
    for wrong in
        ["[a](none.md)", "[a](a.md#none)", "[a](#none)", "![a](a.svg)", "[a]: none.md", "[a](../../a.md)"]
    {
        assert_eq!(links(wrong), 1, "{wrong}");
    }
}
