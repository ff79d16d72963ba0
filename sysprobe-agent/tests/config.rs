//! User mistakes, through the real binary: every mistake ends in one sentence that names its place, and in
//! the exit code for its kind.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use support::agent::{self, Agent, Options};
use support::cgroup::{Cgroup, is_v1};
use support::command::{self, CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, Outcome};
use support::mounts::{self, mount};
use support::samples::Samples;
use support::until;
use sysprobe_agent::config::Domains;
use sysprobe_agent::snapshot::DomainState;
use tempfile::TempDir;

/// The exit code for wrong configurations and missing files (`EX_CONFIG` of sysexits.h).
const WRONG_CONFIGURATION: i32 = 78;
/// Missing privileges (`EX_NOPERM`).
const MISSING_PRIVILEGES: i32 = 77;
const WRONG_ARGUMENTS: i32 = 2;
const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// Runs the agent with this configuration, which must make it exit.
fn agent_with(config: &[u8]) -> (Outcome, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sysprobe.toml");
    fs::write(&file, config).expect("written");
    (agent_with_file(&file), directory)
}

fn agent_with_file(file: &Path) -> Outcome {
    let mut command = command::sysprobe();
    let directory = file.parent().expect("a directory");
    command.args(["agent", "--listen", "127.0.0.1:0", "--config"]).arg(file);
    command::run(command.arg("--socket").arg(directory.join("agent.sock")))
}

#[test]
fn a_wrong_configuration_is_refused_with_file_line_and_key() {
    let cases = [
        ("an unknown key", "slots = 64\nslot = 5", "line 2", "slot"),
        ("an unknown section", "[sections]\nsched = true", "line 1", "sections"),
        ("an unknown key in a section", "\n[domains]\nschedd = true", "line 3", "schedd"),
        ("a key in the wrong section", "[log]\nsched = true", "line 2", "sched"),
        ("a number in quotes", "slots = \"64\"", "line 1", "slots"),
        ("a negative number", "slots = -1", "line 1", "slots"),
        ("a number that is too large for its type", "slots = 5000000000", "line 1", "slots"),
        ("a fraction", "grace_seconds = 1.5", "line 1", "grace_seconds"),
        ("no boolean", "[domains]\ncpu = 1", "line 2", "cpu"),
        ("no address", "# doors\nlisten = \"localhost\"", "line 2", "listen"),
        ("an address without a port", "listen = \"127.0.0.1\"", "line 1", "listen"),
        ("a format that there is not", "[log]\nformat = \"xml\"", "line 2", "format"),
        ("the same key twice", "slots = 64\nslots = 65", "line 2", "slots"),
        ("no value", "slots =", "line 1", "slots"),
        ("no TOML", "slots: 64", "line 1", "slots"),
        ("a quote that is not closed", "socket = \"/run/x", "line 1", "socket"),
    ];
    for (mistake, config, line, key) in cases {
        let (outcome, directory) = agent_with(config.as_bytes());
        let file = directory.path().join("sysprobe.toml");
        assert_eq!(outcome.code, Some(WRONG_CONFIGURATION), "{mistake}: {}", outcome.stderr);
        for part in [file.to_str().expect("UTF-8"), line, key] {
            assert!(outcome.stderr.contains(part), "{mistake}: `{part}` is not in: {}", outcome.stderr);
        }
        assert_eq!(outcome.stdout, "", "{mistake}");
    }
}

#[test]
fn a_value_out_of_range_is_refused_with_what_it_may_be() {
    let cases = [
        ("slots = 15", "15 is not between 16 and 65536"),
        ("slots = 65537", "65537 is not between 16 and 65536"),
        ("grace_seconds = 0", "0 is not between 1 and 3600"),
        ("grace_seconds = 3601", "3601 is not between 1 and 3600"),
        ("socket = \"run/agent.sock\"", "must be absolute"),
    ];
    for (line, expected) in cases {
        let (outcome, directory) = agent_with(format!("# Line one.\n{line}").as_bytes());
        let file = directory.path().join("sysprobe.toml");
        let file = file.to_str().expect("UTF-8");
        outcome.fails_with(WRONG_CONFIGURATION, &[file, "line 2", line, expected]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing.toml");
    let named = missing.to_str().expect("UTF-8");
    let outcome = agent_with_file(&missing);
    outcome.fails_with(WRONG_CONFIGURATION, &[named, "No such file"]);
    assert_eq!(outcome.stderr.matches("No such file").count(), 1, "said once: {}", outcome.stderr);
    let missing = command::run_with(&["check", "--config", named]);
    missing.fails_with(WRONG_CONFIGURATION, &[named]);
    let inner = directory.path().join("directory");
    fs::create_dir(&inner).expect("made");
    agent_with_file(&inner).fails_with(WRONG_CONFIGURATION, &[inner.to_str().expect("UTF-8")]);
    let (binary, directory) = agent_with(b"slots = 64\n\xff\xfe");
    let file = directory.path().join("sysprobe.toml");
    binary.fails_with(WRONG_CONFIGURATION, &[file.to_str().expect("UTF-8")]);
}

#[test]
fn a_log_filter_that_is_none_is_a_wrong_configuration() {
    let (outcome, _directory) = agent_with(b"[log]\nfilter = \"a=b=c\"");
    outcome.fails_with(
        WRONG_CONFIGURATION,
        &["line 2", "filter = \"a=b=c\"", "neither a log level nor filter directives"],
    );
}

#[test]
fn the_environment_can_name_the_file_and_a_flag_overrides_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let [named, other] = ["named.toml", "other.toml"].map(|name| directory.path().join(name));
    fs::write(&named, "[domains]\nvfs = false").expect("written");
    fs::write(&other, "").expect("written");
    let reasons = |flags: &[&str]| {
        let mut check = command::sysprobe();
        check.args(["check", "--no-load"]).args(flags).env("SYSPROBE_CONFIG", &named);
        command::run(&mut check).stdout.matches("turned off by the configuration (domains.vfs)").count()
    };
    assert_eq!(reasons(&[]), 1);
    assert_eq!(reasons(&["--config", other.to_str().expect("UTF-8")]), 0);
    let mut agent = command::sysprobe();
    fs::write(&named, "slot = 5").expect("written");
    agent.args(["agent", "--listen", "127.0.0.1:0", "--socket"]).arg(directory.path().join("agent.sock"));
    let refused = command::run(agent.env("SYSPROBE_CONFIG", &named));
    assert_eq!(refused.code, Some(WRONG_CONFIGURATION), "{}", refused.stderr);
    assert!(refused.stderr.contains("named.toml"), "{}", refused.stderr);
}

#[test]
fn an_empty_configuration_is_a_right_one() {
    let agent = Agent::configured("");
    assert_all_up(&agent);
}

/// Asserts that all domains are up, except for pressure on cgroup v1.
fn assert_all_up(agent: &Agent) {
    let domains = agent.snapshot().domains;
    let is_as_it_should = |domain: &DomainState| domain.up != (domain.name == "pressure" && is_v1());
    assert!(domains.iter().all(is_as_it_should), "{domains:?}");
}

#[test]
fn wrong_arguments_are_told_with_the_right_ones() {
    let cases: [(&[&str], &str); 7] = [
        (&[], "Usage"),
        (&["agnet"], "agent"),
        (&["agent", "--listne", "127.0.0.1:0"], "--listen"),
        (&["agent", "--listen", "localhost"], "--listen"),
        (&["agent", "--socket", "run/agent.sock"], "the path must be absolute"),
        (&["top", "--interval", "1ms"], "--interval"),
        (&["check", "--output", "xml"], "--output"),
    ];
    for (arguments, says) in cases {
        command::run_with(arguments).fails_with(WRONG_ARGUMENTS, &[says]);
    }
}

/// The binary in a directory that every user can read, for a command that does not run as root.
fn for_nobody(directory: &TempDir) -> Command {
    /// The unprivileged user of Debian and most other distributions; any id without privileges will do.
    const NOBODY: u32 = 65_534;
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("ours");
    let program = directory.path().join("sysprobe");
    // Copied by another process: a child that another test forks meanwhile would inherit our open descriptor,
    // and a file that is open for writing cannot be executed (ETXTBSY).
    let copied = Command::new("cp").arg(command::program()).arg(&program).status().expect("cp");
    assert!(copied.success());
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).uid(NOBODY).gid(NOBODY).current_dir("/");
    command
}

#[test]
fn a_user_without_rights_is_told_which_are_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut agent = for_nobody(&directory);
    agent.args(["agent", "--listen", "127.0.0.1:0", "--socket"]).arg(directory.path().join("agent.sock"));
    command::run(&mut agent).fails_with(MISSING_PRIVILEGES, &["CAP_BPF", "CAP_PERFMON", "root"]);
    let mut top = for_nobody(&directory);
    top.args(["top", "--once", "--socket"]).arg(directory.path().join("agent.sock"));
    command::run(&mut top).fails_with(MISSING_PRIVILEGES, &["CAP_BPF", "CAP_PERFMON", "root"]);
}

#[test]
fn a_user_without_rights_is_told_so_with_the_usual_paths_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut agent = for_nobody(&directory);
    // The default settings, except for the port, which may be in use.
    agent.args(["agent", "--listen", "127.0.0.1:0"]);
    command::run(&mut agent).fails_with(MISSING_PRIVILEGES, &["CAP_BPF", "CAP_PERFMON"]);
}

#[test]
fn only_the_missing_right_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = command::sysprobe();
    command.args(["agent", "--listen", "127.0.0.1:0", "--socket"]).arg(directory.path().join("agent.sock"));
    command::without(&mut command, &[CAP_SYS_ADMIN, CAP_PERFMON]);
    let outcome = command::run(&mut command);
    outcome.fails_with(MISSING_PRIVILEGES, &["CAP_PERFMON"]);
    assert!(!outcome.stderr.contains("CAP_BPF"), "{}", outcome.stderr);
}

#[test]
fn without_rights_and_without_sched_the_files_still_speak() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut check = command::sysprobe();
    let config = directory.path().join("sysprobe.toml");
    fs::write(&config, "[domains]\nsched = false\nvfs = false").expect("written");
    command::without(&mut check, &[CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF]);
    let outcome = command::run(check.args(["check", "--config"]).arg(&config));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("domains.sched") && outcome.stdout.contains("CAP_BPF"),
        "{}",
        outcome.stdout
    );
}

/// Asserts that `sched` is off for a reason with all of these texts, and that `cpu` works.
fn assert_sched_is_off(agent: &Agent, says: &[&str]) {
    let scrape: Samples = agent.scrape();
    let up = |domain| scrape.get("sysprobe_agent_domain_up", &[("domain", domain)]);
    assert!(up("sched") < 0.5 && up("cpu") > 0.5, "{scrape:?}");
    let info = scrape.select("sysprobe_agent_domain_info", &[("domain", "sched")]).next().expect("a reason");
    for text in says {
        assert!(info.labels["reason"].contains(text), "`{text}` is not in {info:?}");
        assert!(agent.log().contains(text), "`{text}` is not in the log: {}", agent.log());
    }
    assert_eq!(scrape.select("sysprobe_sched_on_cpu_seconds_total", &[]).count(), 0);
    let cgroup = Cgroup::new(&format!("files-{}", agent.pid()));
    until("the files of a cgroup are read", || {
        let labels = [("container", &*cgroup.name)];
        agent.scrape().select("sysprobe_cpu_usage_seconds_total", &labels).next().map(drop)
    });
}

/// Hides the kernel's BTF from this thread and its children.
fn hide_kernel_btf() {
    mounts::separate().expect("root may do this");
    let hidden = mount(c"none", c"/sys/kernel/btf", Some(c"tmpfs"), libc::MS_RDONLY, c"");
    hidden.expect("root may do this");
}

#[test]
fn without_btf_sched_is_off_and_says_why_while_cpu_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = directory.path().join("vmlinux");
    fs::copy(KERNEL_BTF, &copy).expect("this kernel shows its BTF");
    let without = || {
        hide_kernel_btf();
        assert_sched_is_off(&Agent::start(), &[KERNEL_BTF, "this kernel provides no BTF", "--btf"]);
        let arguments = ["--btf", copy.to_str().expect("UTF-8")];
        let agent = Agent::with(Options { arguments: &arguments, ..Options::default() });
        assert_all_up(&agent);
    };
    // In a thread of its own, because it changes the thread's mount namespace.
    std::thread::scope(|scope| scope.spawn(without).join().expect("all of it holds"));
}

/// Asserts that `agent`, and `top` without an agent, exit with a wrong configuration, and that `check`
/// reports `sched` as off.
fn assert_is_no_btf(file: &str, says: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("agent.sock");
    let socket = socket.to_str().expect("UTF-8");
    let config = directory.path().join("sysprobe.toml");
    fs::write(&config, format!("btf = {file:?}")).expect("written");
    let config = config.to_str().expect("UTF-8");
    for arguments in [
        &["agent", "--listen", "127.0.0.1:0", "--socket", socket, "--btf", file][..],
        &["agent", "--listen", "127.0.0.1:0", "--socket", socket, "--config", config],
        &["top", "--once", "--socket", socket, "--btf", file],
    ] {
        command::run_with(arguments).fails_with(WRONG_CONFIGURATION, says);
    }
    let check = command::run_with(&["check", "--btf", file]);
    assert_eq!(check.code, Some(0), "{}", check.stderr);
    for text in says {
        assert!(check.stdout.contains(text), "`{text}` is not in: {}", check.stdout);
    }
}

#[test]
fn a_btf_file_that_is_not_there_is_a_wrong_configuration() {
    let file = "/nonexistent/vmlinux";
    assert_is_no_btf(file, &[file, "the file given with --btf does not exist"]);
}

#[test]
fn a_btf_file_that_is_none_is_a_wrong_configuration() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("vmlinux");
    let file_name = file.to_str().expect("UTF-8");
    // Nothing, text, and the first half of a real file, as after an interrupted download.
    let real = fs::read(KERNEL_BTF).unwrap_or_default();
    for content in [&b""[..], b"this is no BTF", &real[..real.len() / 2]] {
        fs::write(&file, content).expect("written");
        assert_is_no_btf(file_name, &[file_name, "not readable as BTF"]);
    }
}

#[test]
fn a_configuration_that_leaves_nothing_to_export_is_refused() {
    let (outcome, _directory) = agent_with(agent::domains(|_| false).as_bytes());
    outcome.fails_with(WRONG_CONFIGURATION, &["sysprobe.toml", &Domains::names().join(", ")]);
}

/// Starts the agent with one attach mode only. No file reliably shows whether this host supports it, so the
/// agent decides. It must either work in that mode or name it in its reason.
fn assert_works_or_says_why(mode: &str) {
    let agent = Agent::with(Options { arguments: &["--attach", mode], ..Options::default() });
    if agent.scrape().get("sysprobe_agent_domain_up", &[("domain", "sched")]) > 0.5 {
        assert_sched_works_by(&agent, mode);
    } else {
        assert_sched_is_off(&agent, &[mode]);
    }
}

fn assert_sched_works_by(agent: &Agent, mode: &str) {
    let scrape = agent.scrape();
    assert!(scrape.get("sysprobe_agent_domain_up", &[("domain", "sched")]) > 0.5, "{}", agent.log());
    let labels = [("domain", "sched"), ("hook", mode)];
    assert_eq!(scrape.select("sysprobe_agent_domain_info", &labels).count(), 1, "{}", agent.log());
    assert!(scrape.select("sysprobe_sched_on_cpu_seconds_total", &[]).next().is_some());
}

#[test]
fn a_forced_attach_mode_is_the_only_one_tried() {
    assert_works_or_says_why("fentry");
    assert_works_or_says_why("kprobe");
    // Every supported kernel has raw tracepoints.
    let agent = Agent::with(Options { arguments: &["--attach", "raw_tp"], ..Options::default() });
    assert_sched_works_by(&agent, "raw_tp");
}

#[test]
fn a_forced_attach_mode_in_the_file_counts_too() {
    assert_sched_works_by(&Agent::configured("attach = \"raw_tp\""), "raw_tp");
}

#[test]
fn an_agent_that_is_not_for_this_user_is_not_taken_for_none() {
    let agent = Agent::start();
    let directory = tempfile::tempdir().expect("a directory");
    let mut top = for_nobody(&directory);
    top.args(["top", "--once", "--socket"]).arg(agent.socket());
    let socket = agent.socket().to_str().expect("UTF-8");
    command::run(&mut top).fails_with(MISSING_PRIVILEGES, &[socket, "root"]);
}
