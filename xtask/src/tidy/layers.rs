//! The layers of the agent, and the rule that no modules of a crate use each other in a circle.
//!
//! ARCHITECTURE lists the agent's modules, the lowest layer first. A module may use those before it.

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
    match graph(files, Path::new(AGENT)) {
        Ok(graph) => found.extend(against_layers(&graph, &listed(page))),
        Err(fault) => found.push(fault),
    }
    found
}

/// The graph of the crate below `root`.
fn graph(files: &[(PathBuf, String)], root: &Path) -> Result<Graph, String> {
    let is_own = |path: &Path| {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        is_source && (root.starts_with(PROGRAMS) || !path.starts_with(PROGRAMS))
    };
    let below = |path: &Path| path.strip_prefix(root).ok().map(Path::to_owned);
    let own = files.iter().filter(|(path, _)| is_own(path));
    let own: Vec<_> = own.filter_map(|(path, text)| Some((below(path)?, text.as_str()))).collect();
    // The programs for old kernels share modules with those for newer ones.
    let main = own.iter().find(|(path, _)| path == Path::new("main.rs"));
    let elsewhere = main.into_iter().flat_map(|(_, text)| modules::elsewhere(text));
    let shared = elsewhere.filter_map(|(name, path)| {
        let path = root.parent()?.join(path.strip_prefix("../")?);
        let (_, text) = files.iter().find(|(other, _)| *other == path)?;
        Some((PathBuf::from(name), text.as_str()))
    });
    let shared: Vec<_> = shared.collect();
    modules::graph(own.into_iter().chain(shared))
}

fn in_circle(files: &[(PathBuf, String)], root: &Path) -> Option<String> {
    match graph(files, root) {
        Ok(graph) => {
            let circle = modules::circle(&graph)?;
            let first = circle.first()?;
            let way = circle.iter().chain([first]).map(|module| format!("`{module}`")).collect::<Vec<_>>();
            Some(format!("{}: modules use each other in a circle: {}", root.display(), way.join(" -> ")))
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
    let place = |module: &str| listed.iter().position(|other| *other == module);
    let unknown = listed.iter().filter(|module| !graph.contains_key(**module));
    let mut found: Vec<String> =
        unknown.map(|module| format!("{PAGE}: lists `{module}`, which is no module of {AGENT}")).collect();
    for (module, uses) in graph {
        let Some(own) = place(module) else {
            found.push(format!("{PAGE}: the list of layers lacks `{module}`"));
            continue;
        };
        for other in uses.iter().filter(|other| place(other).is_some_and(|other| other > own)) {
            found.push(format!("{AGENT}: `{module}` uses `{other}`, which is above it ({PAGE}, Layers)"));
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
