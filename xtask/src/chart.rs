//! `cargo xtask chart`: checks the Kubernetes files in `deploy`. The chart is linted and rendered with every
//! set of values in its `ci` directory. Every manifest is validated against the schemas of Kubernetes and of
//! the Prometheus operator. The kustomize manifests are generated from the chart, so there is one place to
//! change.

mod examples;
mod kustomize;
mod render;
mod schemas;
mod tools;

use std::path::PathBuf;

use anyhow::Result;

use crate::results::Results;
use crate::{golang, paths, say};

pub(crate) use schemas::custom_resources;
pub(crate) use tools::{Tools, helm};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail if the kustomize manifests differ from the chart's
    #[arg(long)]
    check: bool,
    /// Whether to skip the check when its tools or schemas cannot be fetched.
    #[arg(skip)]
    lenient: bool,
}

impl Args {
    /// Lenient, as for the advisory database: an unreachable server must not hold up the other checks.
    pub(crate) fn checking() -> Self {
        Self { check: true, lenient: true }
    }
}

pub(crate) fn main(args: &Args) -> Result<Results> {
    golang::require()?;
    let fetched = Tools::fetch().and_then(|()| schemas::fetch());
    if let Err(error) = fetched {
        if args.lenient {
            say::step(format_args!("NOT CHECKED: the chart, for its tools cannot be fetched: {error:#}"));
            return Ok(Results::without("the chart: its tools cannot be fetched".to_owned()));
        }
        return Err(error);
    }
    let tools = Tools::ensure()?;
    let schemas = schemas::make()?;
    schemas::refused(&tools, &schemas)?;
    let rendered = render::all(&tools)?;
    for one in &rendered {
        schemas::validate(&tools, &schemas, &one.name, &one.manifests)?;
    }
    render::refused(&tools)?;
    kustomize::write(&tools, args.check)?;
    for (name, manifests) in kustomize::built(&tools)? {
        schemas::validate(&tools, &schemas, &name, &manifests)?;
    }
    examples::all(&tools)?;
    say::step("The chart and the manifests are as they should be.");
    Ok(Results::default())
}

/// The chart's own directory.
pub(crate) fn directory() -> PathBuf {
    paths::root().join("deploy/helm/sysprobe")
}
