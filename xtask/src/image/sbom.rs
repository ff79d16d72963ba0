//! The SBOM of the agent's program in `CycloneDX` format: every crate that is linked into it, from cargo's
//! own dependency graph.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::build::Arch;
use crate::cmd;

const ROOT: &str = "sysprobe-agent";

/// The part of `cargo metadata` output that is used here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `None` for a linked dependency, otherwise `dev` or `build`.
    kind: Option<String>,
}

/// The document's text.
pub(super) fn of_agent(arch: Arch) -> Result<String> {
    let mut cargo = cmd::cargo();
    cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform", arch.target()]);
    let printed = cmd::capture(&mut cargo).context("`cargo metadata` failed")?;
    let metadata: Metadata = serde_json::from_str(&printed).context("reading what cargo says")?;
    Ok(serde_json::to_string_pretty(&document(&metadata)?)? + "\n")
}

fn document(metadata: &Metadata) -> Result<Value> {
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let root =
        metadata.packages.iter().find(|package| package.name == ROOT).context("no agent in the workspace")?;
    let linked = linked(&nodes, &root.id);
    let of = |id: &&str| packages.get(id).map(|package| component(package));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": ROOT, "name": "sysprobe", "version": root.version
            }
        },
        "components": linked.iter().filter(|id| **id != root.id).filter_map(of).collect::<Vec<_>>(),
        "dependencies": linked
            .iter()
            .filter_map(|id| dependencies(nodes.get(id)?, &packages, &root.id))
            .collect::<Vec<_>>(),
    }))
}

/// The crates that can be reached without dev and build dependencies.
fn linked<'a>(nodes: &BTreeMap<&'a str, &'a Node>, root: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next = vec![root];
    while let Some(id) = next.pop() {
        if found.insert(id) {
            next.extend(nodes.get(id).into_iter().flat_map(|node| links(node)));
        }
    }
    found
}

fn links(node: &Node) -> impl Iterator<Item = &str> {
    let is_linked = |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
    node.deps.iter().filter(is_linked).map(|dependency| dependency.pkg.as_str())
}

fn component(package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
    });
    if package.source.is_some() {
        component["purl"] = reference(package).into();
    }
    if let Some(license) = &package.license {
        component["licenses"] = json!([{ "expression": license }]);
    }
    component
}

fn dependencies(node: &Node, packages: &BTreeMap<&str, &Package>, root: &str) -> Option<Value> {
    let name = |id: &str| {
        if id == root { Some(ROOT.to_owned()) } else { packages.get(id).map(|package| reference(package)) }
    };
    let on: BTreeSet<String> = links(node).filter_map(name).collect();
    Some(json!({ "ref": name(&node.id)?, "dependsOn": on }))
}

fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}
