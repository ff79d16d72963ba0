//! helm, kubeconform and kustomize in the versions of `xtask/chart/go.mod`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::golang::{self, Module};
use crate::{cmd, paths};

/// The module that pins them.
pub(super) const SOURCES: &str = "xtask/chart";

/// The programs, built.
#[derive(Debug)]
pub(crate) struct Tools {
    directory: PathBuf,
}

/// The helm that was built. Call [`Tools::ensure`] before this.
pub(crate) fn helm() -> Result<Command> {
    Ok(cmd::tool(directory()?.join("helm")))
}

/// Clones of other versions use another directory.
fn directory() -> Result<PathBuf> {
    Ok(paths::tools().join(format!("chart-{}", golang::fingerprint(SOURCES)?)))
}

impl Tools {
    /// Fetches the programs' source modules.
    pub(super) fn fetch() -> Result<()> {
        golang::fetch(SOURCES)
    }

    pub(crate) fn ensure() -> Result<Self> {
        let directory = directory()?;
        let module = Module {
            sources: SOURCES,
            output: directory.clone(),
            linker_flags: "-s -w".into(),
            about: "Building helm, kubeconform and kustomize (minutes, once for all clones).".into(),
        };
        module.ensure(&["tool"])?;
        Ok(Self { directory })
    }

    pub(super) fn command(&self, name: &str) -> Command {
        cmd::tool(self.directory.join(name))
    }
}
