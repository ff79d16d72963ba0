//! Completion in a real bash: the candidates that Tab offers are safe to run, whatever a cgroup's name is.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::agent::Agent;
use support::cgroup::Cgroup;
use support::command::{Outcome, program, run};
use support::until;

/// Runs in a mount namespace of its own, with the agent's socket at the usual place. Completes the word, then
/// has bash evaluate a line with each candidate. `$1` is the agent's directory, `$2` the program, `$3` the
/// word.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs tmpfs /run
mkdir /run/sysprobe
mount --bind "$1" /run/sysprobe
PATH=$(dirname "$2"):$PATH
source <("$2" completions bash)
# A function's "compopt" wants a completion that is going on.
compopt() { return 0; }
COMP_WORDS=(sysprobe blame "$3") COMP_CWORD=2 COMP_TYPE=9
# On a busy machine the agent may take longer than a Tab may.
for attempt in {1..100}; do
    _clap_complete_sysprobe sysprobe "$3" blame || true
    if [ "${#COMPREPLY[@]}" -gt 0 ]; then break; fi
done
echo "candidates: ${#COMPREPLY[@]}"
for candidate in "${COMPREPLY[@]}"; do
    echo "candidate: $candidate"
    eval "printf 'word: %s\n' $candidate"
done
"#;

fn complete(agent: &Agent, word: &str, sandbox: &Path) -> Outcome {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", SCRIPT, "bash"]);
    let directory = agent.socket().parent().expect("a directory");
    run(command.arg(directory).arg(program()).arg(word).current_dir(sandbox))
}

#[test]
fn no_candidate_runs_anything_or_becomes_another_word() {
    let agent = Agent::start();
    let plain = Cgroup::new("plain-1.service");
    let prefix = plain.name[1..].strip_suffix("plain-1.service").expect("a name").to_owned();
    let evil = [
        "$(touch pwned).scope",
        "`touch pwned`.scope",
        ";touch pwned;.scope",
        "a b*.scope",
        "'.scope",
        "&.scope",
    ];
    let evil: Vec<_> = evil.into_iter().map(Cgroup::new).collect();
    until("the agent knows them", || {
        let known = agent.snapshot().workloads;
        let is_known = |cgroup: &Cgroup| known.iter().any(|row| row.workload.container == cgroup.name[1..]);
        (evil.iter().all(is_known) && is_known(&plain)).then_some(())
    });
    let sandbox = tempfile::tempdir().expect("a directory");
    let outcome = complete(&agent, &prefix, sandbox.path());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let name = &plain.name[1..];
    assert_eq!(outcome.stdout, format!("candidates: 1\ncandidate: {name}\nword: {name}\n"), "{outcome:?}");
    let made: Vec<_> = fs::read_dir(sandbox.path()).expect("there").collect();
    assert!(made.is_empty(), "{made:?}");
}
