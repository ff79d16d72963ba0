//! The layers of the agent, and the rule that no crate has a dependency cycle among its modules.
//!
//! ARCHITECTURE lists the agent's modules, the lowest layer first. A module may use those before it. `a::*`
//! stands for the modules in `a` that are not listed; these do not use each other. If modules in `a` are
//! listed, `a` is only what is in its own file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::modules::{self, Graph};

/// The crate with layers.
const AGENT: &str = "sysprobe-agent/src";
/// Where the other crates' modules are. Each program of the kernel side is a crate.
const CRATES: [&str; 3] = ["sysprobe-common/src", "sysprobe-ebpf/src", "xtask/src"];
const PROGRAMS: &str = "sysprobe-ebpf/src/bin";

pub(super) const PAGE: &str = "ARCHITECTURE.md";
const SECTION: &str = "\n## Layers\n";

/// What is wrong with these files, by their paths below the repository's root.
pub(super) fn faults(page: &str, files: &[(PathBuf, String)]) -> Vec<String> {
    let mut roots: Vec<PathBuf> = CRATES.map(PathBuf::from).to_vec();
    let mains = files.iter().filter_map(|(path, _)| path.strip_prefix(PROGRAMS).ok());
    let programs = mains.filter(|path| path.ends_with("main.rs")).filter_map(Path::parent);
    roots.extend(programs.map(|program| Path::new(PROGRAMS).join(program)));
    let mut found: Vec<String> = roots.iter().filter_map(|root| in_circle(files, root)).collect();
    let listed = listed(page);
    let own = own(files, Path::new(AGENT));
    let known: BTreeSet<PathBuf> = own
        .iter()
        .flat_map(|(path, _)| path.with_extension("").ancestors().map(Path::to_owned).collect::<Vec<_>>())
        .collect();
    match modules::graph(own.into_iter(), |names| node(names, &known, &listed)) {
        Ok(graph) => found.extend(against_layers(&graph, &listed)),
        Err(fault) => found.push(fault),
    }
    found
}

/// The node of a module, or of an item in one: the longest prefix of its path that the list distinguishes.
fn node(names: &[String], known: &BTreeSet<PathBuf>, listed: &[&str]) -> String {
    let mut length = names.len().min(1);
    while length < names.len() {
        let within = names[..length].join("::") + "::";
        let is_divided = listed.iter().any(|entry| entry.starts_with(&within));
        if !is_divided || !known.contains(&names[..=length].iter().collect::<PathBuf>()) {
            break;
        }
        length += 1;
    }
    names[..length].join("::")
}

/// The files of the crate below `root`, by their paths there.
fn own<'a>(files: &'a [(PathBuf, String)], root: &Path) -> Vec<(PathBuf, &'a str)> {
    let is_own = |path: &Path| {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        is_source && (root.starts_with(PROGRAMS) || !path.starts_with(PROGRAMS))
    };
    let below = |path: &Path| path.strip_prefix(root).ok().map(Path::to_owned);
    let own = files.iter().filter(|(path, _)| is_own(path));
    own.filter_map(|(path, text)| Some((below(path)?, text.as_str()))).collect()
}

/// The graph of the first level of modules of the crate below `root`.
fn graph(files: &[(PathBuf, String)], root: &Path) -> Result<Graph, String> {
    let own = own(files, root);
    // The programs for old kernels share modules with those for newer ones.
    let main = own.iter().find(|(path, _)| path == Path::new("main.rs"));
    let elsewhere = main.into_iter().flat_map(|(_, text)| modules::elsewhere(text));
    let shared = elsewhere.filter_map(|(name, path)| {
        let path = root.parent()?.join(path.strip_prefix("../")?);
        let (_, text) = files.iter().find(|(other, _)| *other == path)?;
        Some((PathBuf::from(name), text.as_str()))
    });
    let shared: Vec<_> = shared.collect();
    modules::graph(own.into_iter().chain(shared), |names| names.first().cloned().unwrap_or_default())
}

fn in_circle(files: &[(PathBuf, String)], root: &Path) -> Option<String> {
    match graph(files, root) {
        Ok(graph) => {
            let circle = modules::circle(&graph)?;
            let first = circle.first()?;
            let way = circle.iter().chain([first]).map(|module| format!("`{module}`")).collect::<Vec<_>>();
            Some(format!("{}: a dependency cycle: {}", root.display(), way.join(" -> ")))
        }
        Err(fault) => Some(fault),
    }
}

/// The modules of the page's list, the lowest first: what is in backticks in its numbered lines.
fn listed(page: &str) -> Vec<&str> {
    let section = page.split_once(SECTION).map(|(_, rest)| rest.split("\n## ").next().unwrap_or(rest));
    let items = section.into_iter().flat_map(|text| {
        // A line that begins with blanks continues an item.
        let is_item = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit() || first == ' ');
        text.lines().filter(is_item)
    });
    items.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

fn against_layers(graph: &Graph, listed: &[&str]) -> Vec<String> {
    let entry = |module: &str| listed.iter().position(|other| *other == module);
    let place = |module: &str| {
        let others = || entry(&format!("{}::*", module.rsplit_once("::")?.0));
        entry(module).or_else(others)
    };
    let stands_for_one = |entry: usize| graph.keys().any(|module| place(module) == Some(entry));
    let unknown = listed.iter().enumerate().filter(|(entry, _)| !stands_for_one(*entry));
    let mut found: Vec<String> = unknown
        .map(|(_, module)| {
            format!("{PAGE}: lists `{module}`, which stands for no module of {AGENT}, or is listed twice")
        })
        .collect();
    for (module, uses) in graph {
        let Some(own) = place(module) else {
            found.push(format!("{PAGE}: the list of layers lacks `{module}`"));
            continue;
        };
        for other in uses {
            let why_not = match place(other) {
                Some(place) if place > own => "which is above it",
                Some(place) if place == own => "which shares its place",
                _ => continue,
            };
            found.push(format!("{AGENT}: `{module}` uses `{other}`, {why_not} ({PAGE}, Layers)"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: &str = "# A\n\n## Layers\n\nText of `x`.\n\n1. **Data**: `a`,\n   `b`.\n2. `c`.\n\n\
                          ## B\n\n1. `d`\n";

    fn agent(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| (Path::new(AGENT).join(path), (*text).to_owned());
        faults(LAYERS, &files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn a_module_may_use_those_below_it() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "//! `crate::c`"),
            ("b.rs", "use crate::a::One;"),
            ("c/d.rs", "use crate::{a::One, b::{self, Two}}; fn f() { println!(\"{}\", crate::b::X); }"),
        ];
        assert_eq!(agent(&files), Vec::<String>::new());
    }

    #[test]
    fn a_module_that_uses_one_above_it_is_named() {
        let found = agent(&[
            ("a.rs", "fn f() { vec![crate::b::X]; }"),
            ("b/e.rs", "use crate::{c::X};"),
            ("c.rs", ""),
        ]);
        let upward = ["`a` uses `b`", "`b` uses `c`"];
        assert_eq!(found.len(), upward.len(), "{found:?}");
        assert!(found.iter().zip(upward).all(|(fault, says)| fault.contains(says)), "{found:?}");
    }

    #[test]
    fn tests_may_use_everything() {
        let files = [
            ("lib.rs", "mod a; #[cfg(test)] mod f;"),
            (
                "a.rs",
                "#[cfg(test)] pub(crate) mod fixture; #[cfg(test)] use crate::c; \
                 #[cfg(test)] mod t { use crate::c; }",
            ),
            ("a/fixture/deep.rs", "use crate::c;"),
            ("f.rs", "use crate::c;"),
            ("b.rs", ""),
            ("c.rs", ""),
        ];
        assert_eq!(agent(&files), Vec::<String>::new());
    }

    const INNER: &str = "\n## Layers\n\n1. `a`, `b::low`, `b::*`, `b`.\n2. `c`\n";

    fn inner(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| (Path::new(AGENT).join(path), (*text).to_owned());
        faults(INNER, &files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn modules_in_a_module_have_places_of_their_own() {
        let files = [
            ("a.rs", ""),
            ("b.rs", "pub mod low; mod one; pub static TABLE: u8 = one::X + crate::b::low::Y;"),
            ("b/low.rs", "pub(super) fn f() {}"),
            ("b/one.rs", "use super::low::{self, Y}; mod inner { use super::super::low; }"),
            ("b/one/part.rs", "use super::X; use super::super::low;"),
            ("b/two.rs", "use crate::{a, b::low};"),
            ("c.rs", "use crate::b::{TABLE, two::Z};"),
        ];
        assert_eq!(inner(&files), Vec::<String>::new());
    }

    #[test]
    fn modules_that_share_a_place_do_not_use_each_other() {
        let found = inner(&[
            ("a.rs", "use crate::b::TABLE;"),
            ("b.rs", ""),
            ("b/low.rs", "use super::one::X;"),
            ("b/one.rs", "use super::TABLE;"),
            ("b/one/part.rs", "use super::super::two::Z;"),
            ("b/two.rs", ""),
            ("c.rs", ""),
        ]);
        let says = [
            "`a` uses `b`, which is above",
            "`b::low` uses `b::one`, which is above",
            "`b::one` uses `b`, which is above",
            "`b::one` uses `b::two`, which shares",
        ];
        assert_eq!(found.len(), says.len(), "{found:?}");
        assert!(found.iter().zip(says).all(|(fault, says)| fault.contains(says)), "{found:?}");
    }

    #[test]
    fn a_use_is_found_in_every_form() {
        let uses = [
            "use super::{super::c::Z, low::X};",
            "use super::super::{b::{low::{self, X}, low}, c};",
            "fn f() -> crate::c::Z { $crate::b::low::g!(super::low::X) }",
            "mod inner { pub(in crate::a) use super::super::super::c::*; }",
        ];
        for text in uses {
            let files = [("a.rs", ""), ("b.rs", ""), ("b/low.rs", ""), ("b/one.rs", text), ("c.rs", "")];
            let found = inner(&files);
            assert!(
                found.len() == 1 && found[0].contains("`b::one` uses `c`, which is above"),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn a_module_without_a_file_has_a_place_too() {
        let files = [
            ("a.rs", ""),
            ("b.rs", "mod low; mod one; mod more { mod two; }"),
            ("b/low.rs", ""),
            ("b/one.rs", "use super::more; fn f() { more::two::g() }"),
            ("b/more/two.rs", ""),
            ("c.rs", ""),
        ];
        let listed = INNER.replace("`b::*`", "`b::more::*`, `b::*`");
        let files = files.map(|(path, text)| (Path::new(AGENT).join(path), text.to_owned()));
        let found = faults(&listed, &files);
        assert!(found.len() == 1 && found[0].contains("`b::one` uses `b::more`, which shares"), "{found:?}");
    }

    #[test]
    fn a_module_uses_those_that_it_declares() {
        let listed = "\n## Layers\n\n1. `b`, `b::low`.\n";
        let files = [("b.rs", "pub mod low;"), ("b/low.rs", "")];
        let files = files.map(|(path, text)| (Path::new(AGENT).join(path), text.to_owned()));
        let found = faults(listed, &files);
        assert!(found.len() == 1 && found[0].contains("`b` uses `b::low`, which is above"), "{found:?}");
    }

    #[test]
    fn a_divided_module_is_listed_whole() {
        let list = INNER.replace("`b::*`, ", "");
        let files = [("a.rs", ""), ("b.rs", ""), ("b/low.rs", ""), ("b/one.rs", ""), ("c.rs", "")];
        let files = files.map(|(path, text)| (Path::new(AGENT).join(path), text.to_owned()));
        let found = faults(&list, &files);
        assert!(found.len() == 1 && found[0].contains("lacks `b::one`"), "{found:?}");
        let found = faults(INNER, &files[..3]);
        assert!(found[0].contains("lists `b::*`"), "{found:?}");
    }

    #[test]
    fn list_and_source_have_the_same_modules() {
        let found = agent(&[("a.rs", ""), ("b.rs", ""), ("e.rs", "")]);
        assert!(found[0].contains("lists `c`") && found[1].contains("lacks `e`"), "{found:?}");
    }

    #[test]
    fn a_circle_is_shown_whole() {
        let files = [
            ("main.rs", "mod a;"),
            ("a.rs", "use crate::b::X;"),
            ("b/x.rs", "use crate::c;"),
            ("c.rs", "use crate::a::Y;"),
        ];
        for root in ["xtask/src", "sysprobe-ebpf/src/bin/tcp"] {
            let files = files.map(|(path, text)| (Path::new(root).join(path), text.to_owned()));
            let found = in_circle(&files, Path::new(root)).unwrap();
            assert!(found.contains("`a` -> `b` -> `c` -> `a`"), "{found}");
            assert_eq!(in_circle(&files[..3], Path::new(root)), None);
        }
    }

    #[test]
    fn modules_of_another_program_count() {
        let files = [
            ("tcp/a.rs", "use crate::b::X;"),
            ("tcp_hash/main.rs", "#[path = \"../tcp/a.rs\"] mod a; mod b;"),
            ("tcp_hash/b.rs", "use crate::a::Y;"),
        ];
        let files = files.map(|(path, text)| (Path::new(PROGRAMS).join(path), text.to_owned()));
        let found = in_circle(&files, &Path::new(PROGRAMS).join("tcp_hash")).unwrap();
        assert!(found.contains("`a` -> `b` -> `a`"), "{found}");
    }
}
