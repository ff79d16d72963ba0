//! Which modules use which, by the source: the graph of a crate's modules, as fine as the caller wants it.
//!
//! What is compiled for tests only is left out, because tests may use the fixtures of any module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The modules that each module uses.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// A module, or an item in one: the names that lead to it from the crate's root.
type Names = Vec<String>;

/// What a file says of modules.
#[derive(Default)]
struct Said {
    /// What it uses of the crate.
    uses: BTreeSet<Names>,
    /// Modules that it declares for tests only.
    for_tests: BTreeSet<Names>,
    /// Modules whose text it contains.
    inline: BTreeSet<Names>,
}

/// The graph of the files of a crate, by their paths below its root. `node` names the node of a module, or of
/// an item in one.
pub(super) fn graph<'a>(
    files: impl Iterator<Item = (PathBuf, &'a str)>,
    node: impl Fn(&[String]) -> String,
) -> Result<Graph, String> {
    let mut said = Vec::new();
    for (path, text) in files {
        let tokens: TokenStream =
            text.parse().map_err(|error| format!("{}: is not Rust: {error}", path.display()))?;
        let (module, mut of_file) = (module(&path), Said::default());
        read(tokens, &module, &mut of_file);
        said.push((module, of_file));
    }
    let for_tests: BTreeSet<Names> = said.iter().flat_map(|(_, file)| file.for_tests.clone()).collect();
    let is_for_tests = |module: &[String]| for_tests.iter().any(|tests| module.starts_with(tests));
    let mut graph = Graph::new();
    for (module, of_file) in said {
        if module.is_empty() || is_for_tests(&module) {
            continue;
        }
        let own = node(&module);
        let others =
            of_file.uses.iter().map(|used| node(used)).filter(|other| *other != own).collect::<Vec<_>>();
        for inline in of_file.inline.iter().map(|inline| node(inline)).filter(|inline| *inline != own) {
            graph.entry(inline).or_default();
        }
        graph.entry(own).or_default().extend(others);
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

/// The module in a file; none for the crate's root.
fn module(path: &Path) -> Names {
    let path = path.with_extension("");
    if ["lib", "main"].iter().any(|root| path == Path::new(root)) {
        return Names::new();
    }
    path.iter().map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Finds `crate::...` and `super::...` in the module `at`, also in macros.
fn read(tokens: TokenStream, at: &[String], said: &mut Said) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = &*tokens;
    while let Some((token, after)) = rest.split_first() {
        if is_test_attribute(token, after.first()) {
            rest = after_item(after.get(1..).unwrap_or_default(), at, said);
            continue;
        }
        match (token, after) {
            // A visibility is not a use.
            (TokenTree::Ident(word), [TokenTree::Group(whom), ..])
                if word == "pub" && whom.delimiter() == Delimiter::Parenthesis =>
            {
                rest = after.get(1..).unwrap_or_default();
                continue;
            }
            (TokenTree::Ident(word), _) if word == "crate" => {
                said.uses.extend(below(&[], after));
                rest = after_path(after);
                continue;
            }
            (TokenTree::Ident(word), _) if word == "super" => {
                let (parent, after) = ancestor(at, after);
                said.uses.extend(below(parent, after));
                rest = after_path(after);
                continue;
            }
            // The declaring module may use it by its name alone.
            (TokenTree::Ident(word), [TokenTree::Ident(name), end, ..])
                if word == "mod" && is_punct(end, ';') =>
            {
                said.uses.insert(joined(at, name.to_string()));
            }
            (TokenTree::Ident(word), [TokenTree::Ident(name), TokenTree::Group(body), ..])
                if word == "mod" =>
            {
                let module = joined(at, name.to_string());
                read(body.stream(), &module, said);
                said.inline.insert(module);
                rest = after.get(2..).unwrap_or_default();
                continue;
            }
            (TokenTree::Group(group), _) => read(group.stream(), at, said),
            _ => {}
        }
        rest = after;
    }
}

/// The module that `super` means in `at`, or `super::super` and so on, and the tokens after that.
fn ancestor<'a, 'b>(at: &'a [String], mut rest: &'b [TokenTree]) -> (&'a [String], &'b [TokenTree]) {
    let mut parent = at.split_last().map_or(at, |(_, parent)| parent);
    while let Some(TokenTree::Ident(word)) = after_colons(rest).and_then(<[TokenTree]>::first)
        && word == "super"
    {
        parent = parent.split_last().map_or(parent, |(_, parent)| parent);
        rest = rest.get(3..).unwrap_or_default();
    }
    (parent, rest)
}

/// What a path names that begins with `start`, and goes on with these tokens: `::a::b`, `::{a, b::c}`, or
/// nothing of a path.
fn below(start: &[String], rest: &[TokenTree]) -> Vec<Names> {
    match after_colons(rest).and_then(<[TokenTree]>::split_first) {
        Some((TokenTree::Ident(name), rest)) => below(&joined(start, name.to_string()), rest),
        Some((TokenTree::Group(group), _)) => {
            let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
            let parts = tokens.split(|token| is_punct(token, ','));
            let named = parts.filter_map(|part| match part {
                [TokenTree::Ident(word), rest @ ..] if word == "super" => {
                    let (parent, rest) = ancestor(start, rest);
                    Some(below(parent, rest))
                }
                [TokenTree::Ident(word), ..] if word == "self" => Some(vec![start.to_vec()]),
                [TokenTree::Ident(name), rest @ ..] => Some(below(&joined(start, name.to_string()), rest)),
                _ => None,
            });
            named.flatten().collect()
        }
        _ => vec![start.to_vec()],
    }
}

/// What follows a path of which these are the tokens after its first name.
fn after_path(mut rest: &[TokenTree]) -> &[TokenTree] {
    while let Some(after) = after_colons(rest) {
        rest = after.get(1..).unwrap_or_default();
        // A list of paths ends its own.
        if matches!(after.first(), Some(TokenTree::Group(_))) {
            break;
        }
    }
    rest
}

fn after_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [one, two, rest @ ..] if is_punct(one, ':') && is_punct(two, ':') => Some(rest),
        _ => None,
    }
}

fn joined(module: &[String], name: String) -> Names {
    let mut joined = module.to_vec();
    joined.push(name);
    joined
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

/// Skips an item of the module `at`; notes it if it is the declaration of a module in another file.
fn after_item<'a>(tokens: &'a [TokenTree], at: &[String], said: &mut Said) -> &'a [TokenTree] {
    let is_end = |token: &TokenTree| {
        is_punct(token, ';')
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    let end = tokens.iter().position(is_end).unwrap_or(tokens.len().saturating_sub(1));
    if let Some([.., TokenTree::Ident(word), TokenTree::Ident(name), semicolon]) = tokens.get(..=end)
        && word == "mod"
        && is_punct(semicolon, ';')
    {
        said.for_tests.insert(joined(at, name.to_string()));
    }
    tokens.get(end + 1..).unwrap_or_default()
}
