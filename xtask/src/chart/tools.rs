//! helm, kubeconform and kustomize, of the versions in `xtask/chart/go.mod`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::golang::Module;
use crate::{cmd, paths};

/// The module that pins them.
pub(super) const SOURCES: &str = "xtask/chart";

/// They are built.
#[derive(Debug)]
pub(crate) struct Tools {
    directory: PathBuf,
}

/// Helm as it was built, which is asked only after [`Tools::ensure`].
pub(crate) fn helm() -> Command {
    cmd::tool(directory().join("helm"))
}

fn directory() -> PathBuf {
    paths::root().join("target/chart/tools")
}

impl Tools {
    pub(crate) fn ensure() -> Result<Self> {
        let directory = directory();
        let module = Module {
            sources: SOURCES,
            output: directory.clone(),
            linker_flags: "-s -w".into(),
            about: "Building helm, kubeconform and kustomize (five minutes, once).".into(),
        };
        module.ensure(&["tool"])?;
        Ok(Self { directory })
    }

    pub(super) fn command(&self, name: &str) -> Command {
        cmd::tool(self.directory.join(name))
    }
}

/// What a command prints on stdout; what it says on stderr is only of interest if it fails.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {name}"))?;
    if !output.status.success() {
        let said = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy);
        bail!("{name} failed: {}", said.map(|text| text.trim().to_owned()).join("\n"));
    }
    String::from_utf8(output.stdout).context("what it prints is no text")
}
