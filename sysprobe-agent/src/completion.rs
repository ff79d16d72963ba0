//! Completion in the shell: the script that has a shell ask this program, and the names that only a running
//! agent knows.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::Shells;

use crate::client::Client;
use crate::config::DEFAULT_SOCKET;
use crate::show::Source as _;
use crate::snapshot::Workload;

/// The environment variable by which a shell asks.
pub(crate) const VARIABLE: &str = "SYSPROBE_COMPLETE";

/// Nobody waits longer for a Tab.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Zsh,
}

/// Writes what the shell has to read at its start.
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

/// The pods, units and cgroups of the agent at the usual socket. Without one there are none: a Tab loads no
/// programs.
pub(crate) fn workloads(begun: &OsStr) -> Vec<CompletionCandidate> {
    candidates(begun, names_of)
}

pub(crate) fn namespaces(begun: &OsStr) -> Vec<CompletionCandidate> {
    candidates(begun, |workload, _| workload.namespace.clone())
}

fn candidates(begun: &OsStr, name_of: fn(&Workload, &str) -> String) -> Vec<CompletionCandidate> {
    let Some(begun) = begun.to_str() else { return Vec::new() };
    // There is nobody who could read an error.
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

/// bash puts a candidate on the command line as it is, and runs what is in `$(...)` at Enter; the name of a
/// cgroup is chosen by the user who makes it. Other shells would have to quote such names, each in its own
/// way. What is left out can still be typed.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,:@/+%".contains(&byte);
    name.bytes().all(is_plain) && !name.starts_with('-')
}

fn beginning(known: &[Workload], begun: &str, name_of: fn(&Workload, &str) -> String) -> BTreeSet<String> {
    let names = known.iter().map(|workload| name_of(workload, begun));
    names.filter(|name| !name.is_empty() && name.starts_with(begun) && is_plain(name)).collect()
}

/// Of a pod its name, or with its namespace where that has been begun.
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
    use crate::show::fixture;

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
