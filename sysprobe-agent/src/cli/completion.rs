//! Shell completion: the script that makes a shell ask this program for candidates, and the names that only a
//! running agent knows.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::Shells;

use crate::agent::client::Client;
use crate::config::DEFAULT_SOCKET;
use crate::snapshot::Workload;
use crate::snapshot::source::Source as _;

/// The environment variable that marks a completion request.
pub(crate) const VARIABLE: &str = "SYSPROBE_COMPLETE";

/// A user who pressed Tab does not wait any longer.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Zsh,
}

/// Writes the script that the shell sources at startup.
pub(crate) fn script(shell: Shell) -> anyhow::Result<()> {
    let name = shell.to_possible_value().context("a shell without a name")?;
    let shells = Shells::builtins();
    let completer = shells.completer(name.get_name()).context("no completion for this shell")?;
    Ok(completer.write_registration(
        VARIABLE,
        "sysprobe",
        "sysprobe",
        "sysprobe",
        &mut io::stdout().lock(),
    )?)
}

/// The pods, units and cgroups that the agent on the default socket knows. Without an agent there are none:
/// pressing Tab must not load BPF programs.
pub(crate) fn workloads(begun: &OsStr) -> Vec<CompletionCandidate> {
    candidates(begun, names_of)
}

pub(crate) fn namespaces(begun: &OsStr) -> Vec<CompletionCandidate> {
    candidates(begun, |workload, _| workload.namespace.clone())
}

fn candidates(begun: &OsStr, name_of: fn(&Workload, &str) -> String) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    // During completion an error message would garble the command line.
    let known = ask().unwrap_or_default();
    beginning(&known, begun, name_of).into_iter().map(CompletionCandidate::new).collect()
}

fn ask() -> anyhow::Result<Vec<Workload>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let snapshot = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, async {
            match Client::connect(Path::new(DEFAULT_SOCKET)).await? {
                Some(mut client) => client.next().await.map(Some),
                None => Ok(None),
            }
        })
        .await?
    })?;
    Ok(snapshot.into_iter().flat_map(|snapshot| snapshot.workloads).map(|sample| sample.workload).collect())
}

/// bash inserts a candidate unquoted and runs any `$(...)` in it on Enter, and users choose the names of the
/// cgroups that they create. Other shells each quote differently. A name that is left out can still be typed.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,:@/+%".contains(&byte);
    name.bytes().all(is_plain) && !name.starts_with('-')
}

fn beginning(known: &[Workload], begun: &str, name_of: fn(&Workload, &str) -> String) -> BTreeSet<String> {
    let names = known.iter().map(|workload| name_of(workload, begun));
    names.filter(|name| !name.is_empty() && name.starts_with(begun) && is_plain(name)).collect()
}

/// A pod's name, with its namespace if a slash has been typed; outside a pod, the container, unit or path.
fn names_of(workload: &Workload, begun: &str) -> String {
    match &*workload.pod {
        "" => workload.container.clone(),
        pod if begun.contains('/') => format!("{}/{pod}", workload.namespace),
        pod => pod.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::fixture;

    #[test]
    fn a_name_is_completed_from_its_beginning() {
        let known: Vec<_> = fixture::node().1.workloads.into_iter().map(|sample| sample.workload).collect();
        let names = |begun| Vec::from_iter(beginning(&known, begun, names_of));
        assert_eq!(names("check"), ["checkout-7d9c5b6f4-x2x9q"]);
        assert_eq!(names("shop/c"), ["shop/checkout-7d9c5b6f4-x2x9q"]);
        assert_eq!(names("ssh"), ["ssh.service"]);
        assert!(names("x").is_empty());
    }
}
