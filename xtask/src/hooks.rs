//! `cargo xtask setup --hooks`: has git run `cargo xtask check` before each commit.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{cmd, paths, say};

const HOOK: &str = "#!/bin/sh\n# Installed by `cargo xtask setup --hooks`.\nexec cargo xtask check\n";

/// Installs the hook, but never over the user's own.
pub(crate) fn install() -> Result<()> {
    let git = |what: &[&str]| cmd::output(cmd::tool("git").arg("rev-parse").args(what));
    let hooks = paths::root().join(git(&["--git-path", "hooks"])?.trim());
    let own = paths::root().join(git(&["--git-common-dir"])?.trim());
    if !hooks.starts_with(&own) {
        bail!("git takes its hooks from {}, which is not only this repository's", hooks.display());
    }
    write(&hooks.join("pre-commit"))
}

fn write(file: &Path) -> Result<()> {
    match fs::read(file) {
        Ok(known) if known == HOOK.as_bytes() => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Ok(_) => bail!("{} is not ours: add `cargo xtask check` to it yourself", file.display()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    }
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    }
    fs::write(file, HOOK).with_context(|| format!("writing {}", file.display()))?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    say::step(format_args!("Each commit runs `cargo xtask check` now ({}).", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_own_hook_stays() {
        let directory = std::env::temp_dir().join(format!("xtask-hooks-{}", std::process::id()));
        let file = directory.join("hooks/pre-commit");
        write(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
        write(&file).unwrap();
        fs::write(&file, "#!/bin/sh\nmake\n").unwrap();
        assert!(write(&file).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "#!/bin/sh\nmake\n");
        fs::remove_dir_all(&directory).unwrap();
    }
}
