//! The documentation pages that are generated from the tables in the code, so that they cannot go stale.

mod command;
mod kernels;
mod rights;

use std::io::{self, Write};

use clap::{Command, ValueEnum};
use serde_json::Value;

use crate::cli::schema::Form;
use crate::metrics::table;
use crate::probe::{Hook, PROBES, Program, ProgramSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    /// The part of a page in `commands/`.
    Command,
    Json,
    /// The table in `kernels.md`.
    Kernels,
    Metrics,
    Probes,
    Rights,
}

/// Prints a page; `of` names the command of `program` that a command's page describes.
pub(crate) fn run(page: Page, program: &Command, of: Option<&str>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match page {
        Page::Command => command::write(&mut out, program, of.unwrap_or_default())?,
        Page::Json => json(&mut out)?,
        Page::Kernels => kernels::write(&mut out)?,
        Page::Metrics => metrics(&mut out)?,
        Page::Probes => probes(&mut out)?,
        Page::Rights => rights::write(&mut out)?,
    }
    Ok(())
}

const JSON_HEAD: &str = "# JSON

<!-- Made from the table in `sysprobe-agent/src/cli/schema.rs` by `cargo xtask docs`; edit that. -->

With `-o json`, a command prints one JSON document per window, each on one line; `check` prints a
single one. A JSON Schema (draft 2020-12), generated from the printed types, describes each document
and its fields. `sysprobe schema DOCUMENT` prints the schema of the installed program;
[schema/](schema) has those of this version.

- Names have units: `_seconds`, `_bytes`, `_per_second`, `_ratio` (1 is 100 %).
- A number is `null` where it was not measured or there was nothing to measure; `domains` says which
  domains are off, and why. `io` omits operations that a workload never performed.
- Names of containers, systemd units, cgroups and threads are untrusted text: escape them before you
  display or evaluate them.
- `version` is the version of the format, and the last part of the schema's `$id`. Within a version,
  fields keep their names and meanings, and new fields may appear. A schema rejects unknown fields,
  so that misspelt ones are found: validate a document with the schema of the program that wrote it,
  and let readers ignore unknown fields.

| document | what it is | `$id` |
|---|---|---|
";

fn json(out: &mut impl Write) -> io::Result<()> {
    out.write_all(JSON_HEAD.as_bytes())?;
    for form in Form::value_variants() {
        let (name, schema) = (form.name(), form.schema());
        let id = schema.get("$id").and_then(Value::as_str).unwrap_or_default();
        writeln!(out, "| [`{name}`](schema/{name}.schema.json) | {} | `{id}` |", form.description())?;
    }
    Ok(())
}

const METRICS_HEAD: &str = "# Metrics

<!-- Made from the table in `sysprobe-agent/src/metrics/table.rs` by `cargo xtask docs`; edit that. -->

Workload series carry `namespace`, `pod` and `container`. Histograms of a pod have an empty
`container`, unless the configuration says `histograms = \"container\"`. Workloads outside pods have
an empty `namespace` and `pod`; their `container` is the name or ID of the container, or else the
systemd unit, or else the cgroup path. Without a namespace, three names are special.
`container=\"kernel\"` is the kernel itself: its threads, and its requests and packets without another
owner. `container=\"unknown\"` is what could not be attributed (it should stay near zero).
`container=\"other\"` is the sum described below. A container outside Kubernetes with one of these
names is exported as `NAME@ID`, with the first twelve digits of its ID. A pod's container keeps the
name, because its series has a namespace.

Classic buckets are exact: each of their bounds is also a bound of the finer buckets in which the
BPF programs count (four per power of two). Clients that ask for protobuf, such as Prometheus with
native histograms enabled, also get the finer buckets as a native histogram (schema 2). All formats
are compressed with gzip if the client accepts it. A histogram without observations is not exported.

`[metrics]` in the configuration selects what is exported: families, namespaces and pods by regular
expressions, the maximum number of workloads with series of their own, the maximum number of series
for each, and the classic buckets. Workloads without series of their own are summed in
`container=\"other\"`, so sums over all workloads stay correct; `sysprobe_agent_hidden_workloads`
counts them. Series beyond the maximum per workload are in no sum; `sysprobe_agent_left_out_series`
counts those.

Counters and histograms start at 0 when the agent starts, including those that are read from cgroup
files: earlier values are the baseline. A cgroup that is created later counts from its creation. A
workload that leaves `other` counts from when it gets series. A restarted container continues the
series of its workload. So neither a restart of the agent nor one of a container shows as an
increase.

Each counter and histogram carries the time at which it was created: always in protobuf
(`start_timestamp`, formerly `created_timestamp`); in OpenMetrics as lines that end in `_created`,
with `created_lines = true` in `[metrics]`. The Prometheus text format has no field for it. The
creation time is the later of two times: when the agent first saw the workload, and the last
collection before the workload's first series. With
`--enable-feature=created-timestamp-zero-ingestion`, Prometheus asks for protobuf and inserts a 0 at
that time, so that a new pod's first increments count. Without this feature it stores each
`_created` line as a series, so these lines are off by default. They count neither toward
`series_per_workload` nor in `sysprobe_agent_series`.

| metric | type | labels | meaning | source |
|---|---|---|---|---|
";

fn metrics(out: &mut impl Write) -> io::Result<()> {
    out.write_all(METRICS_HEAD.as_bytes())?;
    for metric in table::all() {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        writeln!(
            out,
            "| `{}` | {} | {} | {} | {} |",
            metric.full_name(),
            metric.kind.name(),
            labels.join(", "),
            metric.help,
            metric.source
        )?;
    }
    Ok(())
}

const PROBES_HEAD: &str = "# Probes

<!-- Made from the table in `sysprobe-agent/src/probe.rs` by `cargo xtask docs`; edit that. -->

This page lists every program that the agent can load, by domain. A domain has several attach modes,
which use different hooks; some lack a few numbers. The agent uses the first one, in the order of
this page, that the kernel accepts (`--attach` forces one). If the kernel accepts none, the domain
is off and the others continue; `sysprobe_agent_domain_info`, the log and `sysprobe top` say why.
";

fn probes(out: &mut impl Write) -> io::Result<()> {
    out.write_all(PROBES_HEAD.as_bytes())?;
    for probe in PROBES {
        writeln!(out, "\n## {}\n\n{}.", probe.domain, probe.summary)?;
        for set in probe.sets {
            mode(out, set)?;
        }
    }
    Ok(())
}

fn mode(out: &mut impl Write, set: &ProgramSet) -> io::Result<()> {
    writeln!(
        out,
        "\n### {}: {}\n\n| program | hook | what it does |\n|---|---|---|",
        set.mode.name(),
        set.mode.means()
    )?;
    for program in set.programs {
        writeln!(out, "| `{}` | {} | {} |", program.name, hook(program), program.does)?;
    }
    for need in set.needs {
        writeln!(out, "\nNeeds {}.", need.means())?;
    }
    let members = set.members.iter().map(|member| {
        let names: Vec<String> = member.paths.iter().map(|path| format!("`{path}`")).collect();
        let names = names.join(" or ");
        if member.required { names } else { format!("{names} (if there is one)") }
    });
    writeln!(out, "\nKernel members read: {}.", members.collect::<Vec<_>>().join(", "))
}

fn hook(program: &Program) -> String {
    match program.hook {
        Hook::OnDemand => "run by the agent on each CPU before it reads".into(),
        Hook::TaskIterator => "task iterator, once at start".into(),
        Hook::TaskScan => "task iterator, every five seconds".into(),
        Hook::FileIterator => "iterator over open files, once at start".into(),
        Hook::FileScan => "iterator over open files, before the agent reads".into(),
        Hook::SocketIterator(_) => "iterator over all sockets, before the agent reads".into(),
        Hook::Fexit(_) | Hook::Kretprobe(_) => format!("return of {}", hooked(program)),
        _ => hooked(program),
    }
}

fn hooked(program: &Program) -> String {
    program.hooked().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}
