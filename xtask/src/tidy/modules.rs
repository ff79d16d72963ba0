//! Which modules use which, by the source: the graph of a crate's first level of modules.
//!
//! What is compiled for tests only is left out, because tests may use the fixtures of any module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The modules that each module uses.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// What a file says of modules.
#[derive(Default)]
struct Said {
    /// Modules of the crate's first level that it uses.
    uses: BTreeSet<String>,
    /// Modules that it declares for tests only.
    for_tests: BTreeSet<String>,
}

/// The graph of the files of a crate, by their paths below its root.
pub(super) fn graph<'a>(files: impl Iterator<Item = (PathBuf, &'a str)>) -> Result<Graph, String> {
    let mut said = Vec::new();
    for (path, text) in files {
        let tokens: TokenStream =
            text.parse().map_err(|error| format!("{}: is not Rust: {error}", path.display()))?;
        let mut of_file = Said::default();
        read(tokens, &mut of_file);
        said.push((path.with_extension(""), of_file));
    }
    let declared = |(path, of_file): &(PathBuf, Said)| {
        let directory = if is_root(path) { PathBuf::new() } else { path.clone() };
        of_file.for_tests.iter().map(|name| directory.join(name)).collect::<Vec<_>>()
    };
    let for_tests: Vec<PathBuf> = said.iter().flat_map(declared).collect();
    let mut graph = Graph::new();
    for (path, of_file) in said {
        let is_for_tests = for_tests.iter().any(|tests| path.starts_with(tests));
        let Some(module) = first(&path).filter(|_| !is_root(&path) && !is_for_tests) else { continue };
        let others = of_file.uses.into_iter().filter(|other| *other != module);
        graph.entry(module.clone()).or_default().extend(others);
    }
    // A name that is no module is a macro, or an item of the crate's root.
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for uses in graph.values_mut() {
        uses.retain(|other| modules.contains(other));
    }
    Ok(graph)
}

/// The modules that a file has from elsewhere, by `#[path = "..."]`: their names and paths.
pub(super) fn elsewhere(text: &str) -> Vec<(String, String)> {
    let tokens: Vec<TokenTree> = text.parse::<TokenStream>().into_iter().flatten().collect();
    let declared = tokens.windows(4).filter_map(|tokens| match tokens {
        [hash, TokenTree::Group(attribute), TokenTree::Ident(word), TokenTree::Ident(name)]
            if is_punct(hash, '#') && word == "mod" =>
        {
            Some((name.to_string(), path_of(attribute.stream())?))
        }
        _ => None,
    });
    declared.collect()
}

/// The path of `path = "..."`.
fn path_of(attribute: TokenStream) -> Option<String> {
    match &*attribute.into_iter().collect::<Vec<_>>() {
        [TokenTree::Ident(word), equals, TokenTree::Literal(path)]
            if word == "path" && is_punct(equals, '=') =>
        {
            Some(path.to_string().trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// A circle in the graph, if there is one: each module uses the next, and the last one the first.
pub(super) fn circle(graph: &Graph) -> Option<Vec<&str>> {
    let mut done = BTreeSet::new();
    graph.keys().find_map(|start| follow(graph, start, &mut Vec::new(), &mut done))
}

fn follow<'a>(
    graph: &'a Graph,
    module: &'a str,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    if let Some(begin) = way.iter().position(|before| *before == module) {
        return way.get(begin..).map(<[&str]>::to_vec);
    }
    if !done.insert(module) {
        return None;
    }
    way.push(module);
    let found = graph.get(module)?.iter().find_map(|next| follow(graph, next, way, done));
    way.pop();
    found
}

fn is_root(path: &Path) -> bool {
    ["lib", "main"].iter().any(|root| path == Path::new(root))
}

fn first(path: &Path) -> Option<String> {
    path.components().next()?.as_os_str().to_str().map(str::to_owned)
}

/// Finds `crate::name` and `crate::{name, ...}`, also in macros.
fn read(tokens: TokenStream, said: &mut Said) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = &*tokens;
    while let Some((token, after)) = rest.split_first() {
        if is_test_attribute(token, after.first()) {
            rest = after_item(after.get(1..).unwrap_or_default(), said);
            continue;
        }
        match (token, after) {
            (TokenTree::Ident(word), [TokenTree::Punct(one), TokenTree::Punct(two), path, ..])
                if word == "crate" && one.as_char() == ':' && two.as_char() == ':' =>
            {
                said.uses.extend(names(path));
            }
            (TokenTree::Group(group), _) => read(group.stream(), said),
            _ => {}
        }
        rest = after;
    }
}

/// The first names of what follows `crate::`.
fn names(path: &TokenTree) -> Vec<String> {
    match path {
        TokenTree::Ident(name) => vec![name.to_string()],
        TokenTree::Group(group) => {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            let parts = tokens.split(|token| is_punct(token, ','));
            parts.filter_map(|part| Some(part.first()?.to_string())).collect()
        }
        _ => Vec::new(),
    }
}

fn is_punct(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(other) if other.as_char() == punct)
}

/// Whether these two tokens are `#[cfg(test)]`.
fn is_test_attribute(token: &TokenTree, next: Option<&TokenTree>) -> bool {
    let TokenTree::Group(attribute) = (match next {
        Some(next) if is_punct(token, '#') => next,
        _ => return false,
    }) else {
        return false;
    };
    attribute.delimiter() == Delimiter::Bracket
        && attribute.stream().to_string().split_whitespace().collect::<String>() == "cfg(test)"
}

/// Skips an item; notes it if it is the declaration of a module in another file.
fn after_item<'a>(tokens: &'a [TokenTree], said: &mut Said) -> &'a [TokenTree] {
    let is_end = |token: &TokenTree| {
        is_punct(token, ';')
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    let end = tokens.iter().position(is_end).unwrap_or(tokens.len().saturating_sub(1));
    if let Some([.., TokenTree::Ident(word), TokenTree::Ident(name), semicolon]) = tokens.get(..=end)
        && word == "mod"
        && is_punct(semicolon, ';')
    {
        said.for_tests.insert(name.to_string());
    }
    tokens.get(end + 1..).unwrap_or_default()
}
