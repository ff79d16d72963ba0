//! Builds test programs, and finds them in cargo's messages: where each runs, and which arguments make cargo
//! run it alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{cmd, paths};

/// Selects the packages that have tests for this machine.
pub(crate) const WORKSPACE: [&str; 3] = ["--workspace", "--exclude", "sysprobe-ebpf"];

/// The variable that names the agent that tests start; without it, the one that cargo has built for them.
pub(crate) const AGENT: &str = "SYSPROBE_TEST_PROGRAM";

/// A program with tests in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// For integration tests the file's stem (`sched`), else the name of the library or program.
    pub(crate) target: String,
    /// The source file, relative to the repository: `sysprobe-agent/tests/sched.rs`.
    pub(crate) source: String,
    pub(crate) executable: PathBuf,
    /// Arguments for `cargo test`: `-p sysprobe-agent --test sched`.
    pub(crate) selection: String,
    is_integration: bool,
    /// The package's directory, where cargo runs the program.
    directory: PathBuf,
}

impl Program {
    /// Whether it is a file of integration tests.
    pub(crate) const fn is_integration(&self) -> bool {
        self.is_integration
    }

    /// The command that runs it as cargo would.
    pub(crate) fn command(&self) -> Command {
        let mut command = cmd::tool(&self.executable);
        command.current_dir(&self.directory);
        command
    }
}

/// `cargo test` of everything that runs on this machine.
pub(crate) fn cargo_test() -> Command {
    let mut cargo = cmd::cargo();
    cargo.args(["test", "--locked"]).args(WORKSPACE);
    cargo
}

/// Builds test programs; compiler errors are shown as usual.
pub(crate) fn build(mut cargo: Command) -> Result<Vec<Program>> {
    cargo.args(["--no-run", "--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = cargo.output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("the tests cannot be built, see above");
    }
    Ok(found(&String::from_utf8_lossy(&output.stdout)))
}

/// The test programs in the output of `cargo test --message-format json`, in a fixed order.
fn found(messages: &str) -> Vec<Program> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found: Vec<Program> = messages.filter_map(|message| program(&message)).collect();
    found.sort_by(|a, b| a.source.cmp(&b.source));
    found
}

fn program(message: &Value) -> Option<Program> {
    let executable = PathBuf::from(message.get("executable")?.as_str()?);
    if message.pointer("/profile/test")? != true {
        return None;
    }
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    let (target, kind) = (text("/target/name")?.to_owned(), text("/target/kind/0")?);
    let source = Path::new(text("/target/src_path")?);
    let package = package(text("/package_id")?);
    let selection = match kind {
        "test" | "bin" | "example" => format!("-p {package} --{kind} {target}"),
        _ => format!("-p {package} --lib"),
    };
    Some(Program {
        source: source.strip_prefix(paths::root()).unwrap_or(source).display().to_string(),
        directory: Path::new(text("/manifest_path")?).parent()?.to_owned(),
        is_integration: kind == "test",
        target,
        executable,
        selection,
    })
}

/// Returns `xtask-init` for `path+file:///work/xtask/init#xtask-init@0.1.0`. If the directory has the
/// package's name, only the version follows the `#`.
fn package(id: &str) -> &str {
    let (place, name) = id.rsplit_once('#').unwrap_or((id, id));
    let directory = place.rsplit('/').next().unwrap_or(place);
    name.split_once('@').map_or(directory, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, name: &str, source: &str, test: bool) -> String {
        let root = paths::root().display();
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file://{root}/sysprobe-agent#0.1.0",
            "manifest_path":"{root}/sysprobe-agent/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}",
            "src_path":"{root}/{source}"}},"profile":{{"test":{test}}},"executable":"/t/deps/{name}-1"}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn test_programs_are_found_among_cargos_messages() {
        let messages = [
            message("test", "tcp", "sysprobe-agent/tests/tcp.rs", true),
            message("lib", "sysprobe_agent", "sysprobe-agent/src/lib.rs", true),
            // The program that tests start; it is not a test.
            message("bin", "sysprobe", "sysprobe-agent/src/main.rs", false),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = found(&messages.join("\n"));
        let told: Vec<_> = found.iter().map(|found| (&*found.source, &*found.selection)).collect();
        let expected = [
            ("sysprobe-agent/src/lib.rs", "-p sysprobe-agent --lib"),
            ("sysprobe-agent/tests/tcp.rs", "-p sysprobe-agent --test tcp"),
        ];
        assert_eq!(told, expected);
        assert!(found[1].is_integration() && !found[0].is_integration());
        assert_eq!(found[1].executable, Path::new("/t/deps/tcp-1"));
        assert_eq!(found[1].directory, paths::root().join("sysprobe-agent"));
    }

    #[test]
    fn a_package_is_named_by_its_id_or_its_directory() {
        assert_eq!(package("path+file:///work/xtask/init#xtask-init@0.1.0"), "xtask-init");
        assert_eq!(package("path+file:///work/xtask#0.1.0"), "xtask");
    }
}
