//! `docs/overhead.md`: the stored counts as tables, and the sections of the last measurement. No side
//! effects.
//!
//! A section that is not measured again stays as it is.

mod reasons;
mod tables;

use super::golden::{Golden, Kernel, Source};
use super::report::Line;

/// A heading and the text below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    title: &'static str,
    body: String,
}

const REQUESTS: &str = "Whole requests";
const IN_LAB: &str = "Instructions, on the test kernels";
const DIFFERENCES: &str = "How far two boots differ";
const ON_HOST: &str = "Nanoseconds, on one host";

const TITLE: &str = "\
# What the programs cost

<!-- The first section is made by `cargo xtask bench overhead --write`, the rest by `cargo xtask cost`;
the counts are those of overhead.json. One section is kept by hand, and says so. -->

This page shows what requests of well-known programs cost with the agent, and then what each of its
BPF programs costs.
";

const INTRODUCTION: &str = "\
## How single programs are measured

The following sections show the cost of each BPF program per run, by attach mode, and the cost of
a task switch with all programs of an attach mode attached. A program's cost is its time by the
kernel's own statistics (`run_time_ns` divided by `run_cnt`), less that of an empty program on the
same hook over the same work. Those statistics do not include the kernel's dispatch to a program
(tracepoint, trampoline, breakpoint). The cost of a switch includes it: it is half the increase of a
round trip between two processes.

The work is scripted (`sysprobe-agent/benches/cost/programs/scripts.rs`). For the switch, a byte
goes to another process on the same CPU and back. Threads begin and end. A sleeping process is moved
between two cgroups. Cgroups are created, removed and renamed. Programs with the hook `on demand`
are triggered by a process other than the agent. An iterator over all tasks is measured from its
second run on: in the first, at start, the kernel also allocates memory for each task. Cgroups can
be renamed only in v1 hierarchies. On the test kernels, cgroups are identified by the v2 hierarchy,
so the program ignores renames. The cost of a rename there is the cost of ignoring it.
";

const BEFORE_AND_AFTER: &str = "\
## Cost of splitting waits by cause

The table shows what the programs add to a wakeup and a switch, in nanoseconds, less the cost of an
empty program: median (quartiles). `cargo xtask bench` measured it on two otherwise idle hosts with
two CPUs (kernel 6.18, `tp_btf`). This section is kept by hand, because its first row needs the
commit that it names.

| | pair of processes | 20 processes, 10 cgroups |
|---|---:|---:|
| commit `b6bb691`: only the sum of waits is kept | 67.6 (63.2-68.6) | 73.1 (71.9-73.7) |
| commit `aa95ff8`: waits are split among the cgroups that ran, and a task's last runs are kept | 98.3 \
(93.9-102.9) | 151.2 (141.1-163.2) |
";

const HOW: &str = "\
## How to repeat it

| command | what it does |
|---|---|
| `cargo xtask bench overhead --write` | measures whole requests and writes the first section of this page; \
without `--write` it only prints |
| `cargo xtask bench overhead --load nginx,fio --variant default,sched+tcp,default-vfs` | the same with \
these loads only, and with three variants: the default, only the domains `sched` and `tcp`, and the default \
without `vfs` |
| `cargo xtask bench overhead --before PROGRAM` | the same beside another build of the agent |
| `cargo xtask bench overhead --against bpftrace --floor` | the same beside another tool that is installed, \
and beside empty programs at the hooks of the default |
| `cargo xtask cost` | measures on this host and on every test kernel, and writes this page and \
`overhead.json` |
| `cargo xtask cost --host-only`, `--lab-only` | measures only this host, or only the test kernels; \
the page keeps the rest |
| `cargo xtask cost 6.12 7.3` | the same, with these test kernels only |
| `cargo xtask cost --check [KERNEL...]` | counts on one kernel (6.12) and changes nothing; fails if a \
program or a round trip takes over 10 % more than in `overhead.json`, or is missing there |
| `cargo xtask cost --requests [KERNEL...]` | counts whole requests only, changes nothing, and prints what \
each program takes of them |
| `cargo xtask bench` | compares the switch with other ways to do the same, on this host |

All commands need root.

**Whole requests.** The loads are nginx with wrk, Redis with redis-benchmark, and fio, as the
distribution installs them, and a ping-pong and a fork storm of the benchmark itself. A load or tool
whose program is not installed is left out. nginx answers `200` without a body and Redis a GET of
three bytes: requests are as small as they can be, so that the added cost weighs most. Server and
client run on a CPU each, in cgroups of their own. Loads over the network run in a network namespace
that the benchmark creates, or in two that a veth pair joins. The agent and other tools run on any
CPU and are not scraped. A load runs for some seconds with the agent before a measurement begins, so
that what the agent sheds or samples under load is part of the result; a domain that it had shed is
named below the tables. Another tool is given the same time after it has attached its programs. Of
its examples `runqlat`, `biolatency` and `tcp-retransmit`, `ebpf_exporter` loads those that are in
its directory (`/etc/ebpf_exporter`). `bpftrace` runs `xtask/src/bench/overhead/peer/watch.bt`.
Rezolus uses `/etc/rezolus/agent.toml`. `--floor` puts empty programs on all hooks that the default
starts with, even those that it later sheds. To give a tool another path, write
`--against=rezolus=/opt/rezolus,/opt/agent.toml`.

**Single programs.** A program of a new domain appears by itself. If no script drives its hook, the
page says so: scripts are chosen by hook in the file named above.
";

/// Renders the page from the counts and the new sections; `old` is the page as it was.
pub(super) fn render(golden: &Golden, mut measured: Vec<Section>, old: &str) -> String {
    measured.push(in_lab(golden));
    let section = |title: &'static str| {
        let new = measured.iter().find(|section| section.title == title).map(|section| section.body.clone());
        let body = new.or_else(|| old_body(old, title));
        let command =
            if title == REQUESTS { "cargo xtask bench overhead --write" } else { "cargo xtask cost" };
        let body = body.unwrap_or_else(|| format!("Not measured yet: run `{command}`."));
        format!("## {title}\n\n{}\n", body.trim())
    };
    let requests = section(REQUESTS);
    let sections = [IN_LAB, DIFFERENCES, ON_HOST].map(section).join("\n");
    format!("{TITLE}\n{requests}\n{INTRODUCTION}\n{sections}\n{BEFORE_AND_AFTER}\n{HOW}")
}

/// The text between a heading and the next one.
fn old_body(page: &str, title: &str) -> Option<String> {
    let (_, rest) = page.split_once(&format!("## {title}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest).trim().to_owned())
}

fn in_lab(golden: &Golden) -> Section {
    let known = |Kernel { series, release, source: Source { commit, .. }, .. }: &Kernel| {
        format!("{series} is `{release}`, with the programs of commit {commit}")
    };
    let kernels: Vec<String> = golden.kernels.iter().map(known).collect();
    let body = format!(
        "In QEMU with `-icount shift=0,sleep=off` and one CPU, a nanosecond of the guest's clock is one \
         instruction, whatever else the host does. {}. A count is the median of all batches. For \
         programs that run when a thread is created or exits, it is the minimum, because the allocator then \
         has memory at hand. With several boots, it is the minimum over the boots. Instruction counts are \
         not time: they overstate short loops and understate cache misses and clock reads.\n\n\
         ### One run\n\n\
         Instructions; in brackets, how many instructions the verifier processed (not reported before \
         5.16).\n\n{}\n\
         ### One switch\n\n\
         Additional instructions per switch with all programs of an attach mode attached, including the \
         kernel's dispatch: half the increase of a round trip. In brackets, the same with one empty \
         program.\n\n{}\n\
         ### A whole request\n\n\
         The table shows how many more instructions a request to nginx over a keep-alive connection takes \
         with all domains on: client, server, and the two switches between them. `default` uses, for each \
         domain, the first attach mode that works. On a busy node, a share of the packets is followed, and \
         packets are selected during about one second in eight. *Noted* is measured in such a second. \
         *Paused* is measured in the other seconds, once the programs at tracepoints are detached. *vfs \
         shed* is measured while the agent pauses `vfs`, as it does on a busy node where `vfs` hooks system \
         calls (`vfs_calls_per_second`).\n\n{}\n\
         ### One call\n\n\
         The table shows how many more instructions a call takes with all programs of an attach mode, or \
         with another tool that measures the same. The kernel's dispatch is included. The number in \
         brackets is that of the call alone. The other tools are from `libbpf-tools`, the successor of \
         bcc's tools: `vfsstat` counts calls of the whole machine; `funclatency` makes one histogram of one \
         function; `biolatency` makes one histogram of all requests, or with `-D -F` one for each device \
         and kind; `tcprtt` makes one histogram of all round-trip times, with a value for each segment. \
         `tcpretrans.bt` (bpftrace) prints retransmissions; this test has none. A tool without a \
         number in a column does not work on that kernel.\n\n{}\n{}",
        kernels.join("; "),
        tables::runs(golden),
        tables::switches(golden),
        tables::requests(golden),
        tables::calls(golden),
        tables::gaps(golden),
    );
    Section { title: IN_LAB, body }
}

/// The table of whole requests.
pub(super) fn requests_in_lab(golden: &Golden) -> String {
    tables::requests(golden)
}

/// The table of each program's share of a request.
pub(super) fn parts(lines: &[Line]) -> String {
    tables::parts(lines)
}

/// How far the counts differ between boots; each element holds the boots of one kernel.
pub(super) fn differences(boots: &[Vec<Kernel>]) -> Section {
    let kernels: Vec<String> = boots
        .iter()
        .filter_map(|boots| Some(format!("{} ({})", boots.first()?.series, boots.len())))
        .collect();
    let body = format!(
        "This section is from the last measurement with several boots, which may be older than the tables \
         above. Kernels, and the number of boots of each: {}. {}",
        kernels.join(", "),
        tables::differences(boots)
    );
    Section { title: DIFFERENCES, body }
}

/// The section with the report of `cargo xtask bench overhead`.
pub(super) fn requests(report: &str) -> Section {
    Section { title: REQUESTS, body: report.to_owned() }
}

/// The section with this host's nanoseconds, for the programs of one commit.
pub(super) fn on_host(lines: &[Line], load: &str, commit: &str) -> Section {
    let host = lines.iter().find_map(|line| match line {
        Line::Host(host) => {
            Some(format!("Linux {}, {} CPUs, load {load} at the end", host.release, host.cpus))
        }
        _ => None,
    });
    let body = format!(
        "{}, with the programs of commit {commit}. Medians and quartiles of all batches. No host is quiet: \
         compare rows of one measurement rather than two measurements, and trust a difference only if the \
         quartiles do not overlap. The times of \
         programs that run rarely include cache misses.\n\n\
         ### One run\n\n{}\n\
         ### One switch\n\n\
         Additional time per switch with an empty program and with all programs of an attach mode attached: \
         half the increase of a round trip, against the round trips without a program just before and \
         after.\n\n{}\n\
         ### One call\n\n\
         Additional time per call, measured in the same way, with all programs of an attach mode attached, \
         or with another tool.\n\n{}\n{}",
        host.unwrap_or_default(),
        tables::host_runs(lines),
        tables::host_switches(lines),
        tables::host_calls(lines),
        tables::host_gaps(lines),
    );
    Section { title: ON_HOST, body }
}

#[cfg(test)]
mod tests;
