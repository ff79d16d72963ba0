//! The rights and the resource use of the agent's container, as the kernel reports them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::e2e::cluster::Container;
use crate::e2e::kernel::Hierarchy;
use crate::e2e::prometheus::Prometheus;
use crate::e2e::rig::Rig;
use crate::e2e::{helm, processes, wait};

/// `CAP_PERFMON` and `CAP_BPF` of `linux/capability.h`.
const CAPABILITIES: u64 = 1 << 38 | 1 << 39;

/// Submounts of a read-only mount stay writable without recursive read-only mounts, which this runtime does
/// not support.
const BELOW: &str = "/host/sys/fs/cgroup/";

/// The chart's default resource requests, in bytes and CPUs.
const REQUESTED_MEMORY: f64 = 96.0 * 1024.0 * 1024.0;
const REQUESTED_CPU: f64 = 0.025;

/// How long its CPU time is measured, in seconds.
const WHILE: f64 = 20.0;

/// The agent's running container.
pub(super) fn agent(rig: &mut Rig) -> Result<Container> {
    let is_agent = |one: &Container| {
        one.namespace == helm::NAMESPACE && one.name.as_deref() == Some("sysprobe") && one.pid.is_some()
    };
    wait::until("the agent's container runs", || Ok(rig.look()?.containers.into_iter().find(is_agent)))
}

pub(super) fn pid(rig: &mut Rig) -> Result<u32> {
    agent(rig)?.pid.context("the agent does not run")
}

pub(super) fn rights(rig: &mut Rig) -> Result<String> {
    let pid = pid(rig)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        line.with_context(|| format!("no {name} in its status"))
    };
    for name in ["CapPrm", "CapEff", "CapBnd"] {
        let has = u64::from_str_radix(field(name)?, 16)?;
        ensure!(has == CAPABILITIES, "{name} is {has:x}, not {CAPABILITIES:x}");
    }
    for (name, wanted) in [("CapAmb", "0000000000000000"), ("NoNewPrivs", "1"), ("Seccomp", "2")] {
        ensure!(field(name)? == wanted, "{name} is {}, not {wanted}", field(name)?);
    }
    let writable = writable_mounts(&fs::read_to_string(format!("/proc/{pid}/mountinfo"))?)?;
    Ok(format!(
        "CAP_BPF, CAP_PERFMON, no new privileges, seccomp; writable is {}, and v1 hierarchies below {BELOW} \
         for want of recursive read-only mounts",
        writable.join(", ")
    ))
}

/// Writable mounts: only the socket's directory, and the ones that every container has, are allowed.
fn writable_mounts(mountinfo: &str) -> Result<Vec<String>> {
    const KNOWN: [&str; 6] =
        ["/dev", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/proc", "/run/sysprobe"];
    // A file system with only the container's own cgroups in it, which are read-only.
    const OWN: &str = "/sys/fs/cgroup";
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let fields: Vec<_> = line.split(' ').collect();
        let (point, options) =
            (fields.get(4).context("no mount point")?, fields.get(5).context("no options")?);
        if options.split(',').any(|option| option == "ro") || point.starts_with(BELOW) || *point == OWN {
            continue;
        }
        let is_known = KNOWN.iter().any(|known| Path::new(point).starts_with(known));
        ensure!(is_known, "{point} is writable");
        found.push((*point).to_owned());
    }
    Ok(found)
}

/// Runs the commands by path and by name, as in the chart's notes and the documentation.
pub(super) fn commands(rig: &mut Rig) -> Result<String> {
    let check = helm::exec(&rig.cluster, &["/sysprobe", "check"])?;
    for part in ["privileges    sufficient", "processes     all of the host"] {
        ensure!(check.contains(part), "`check` does not say `{part}`: {check}");
    }
    // The agent asks the API server only after a random delay.
    let rows = wait::until("`top` has the pods of the rig", || {
        let top = helm::exec(&rig.cluster, &["/sysprobe", "top", "--once", "--interval", "1", "-o", "json"])?;
        let top: serde_json::Value = serde_json::from_str(&top)?;
        let rows = top["workloads"].as_array().context("`top` has no workloads")?;
        Ok(rows.iter().any(|row| row["pod"] == "two-containers").then_some(rows.len()))
    })?;
    let used = helm::exec(&rig.cluster, &["sysprobe", "use", "--once", "--interval", "1", "-o", "json"])?;
    let used: serde_json::Value = serde_json::from_str(&used)?;
    let links = links(&used);
    let real = fs::read_to_string("/proc/1/net/dev")?;
    let missing = links.iter().find(|link| !real.contains(&format!("{link}:")));
    ensure!(missing.is_none() && !links.is_empty(), "links {links:?} are not the node's: {real}");
    Ok(format!("check, top ({rows} rows), use (links {links:?})"))
}

fn links(used: &serde_json::Value) -> Vec<String> {
    let measures = used["measures"].as_array().map(Vec::as_slice).unwrap_or_default();
    let resources = measures.iter().filter_map(|measure| measure["resource"].as_str());
    let links: BTreeSet<_> = resources.filter_map(|resource| resource.strip_prefix("link ")).collect();
    links.into_iter().map(str::to_owned).collect()
}

/// Memory as charged to the container, kernel memory included, and on-CPU time while Prometheus scrapes.
pub(super) fn costs(rig: &mut Rig, prometheus: &Prometheus) -> Result<String> {
    let pid = pid(rig)?;
    let hierarchy = Hierarchy::of_cpu_time()?;
    let (start, used) = (processes::since_boot(), hierarchy.usage_of_process(pid)?);
    wait::until("a while has passed", || Ok((processes::since_boot() - start > WHILE).then_some(())))?;
    let cpu = (hierarchy.usage_of_process(pid)? - used) as f64 / 1e9 / (processes::since_boot() - start);
    let own = format!("{{namespace=\"{}\",container=\"sysprobe\"}}", helm::NAMESPACE);
    let charged = prometheus.value(&format!("sysprobe_memory_usage_bytes{own}"))?.context("no memory")?;
    let resident =
        prometheus.value("process_resident_memory_bytes{job=\"sysprobe\"}")?.context("no memory")?;
    let series = prometheus.value("scrape_samples_scraped{job=\"sysprobe\"}")?.context("no samples")?;
    let mebibytes = |bytes: f64| bytes / 1024.0 / 1024.0;
    ensure!(
        charged <= REQUESTED_MEMORY && cpu <= REQUESTED_CPU,
        "{charged} bytes, {cpu} CPUs: more than the chart requests"
    );
    Ok(format!(
        "{:.1} MiB charged, {:.1} MiB of them resident; {:.2} % of a CPU at a scrape of {series} samples \
         each 2 s",
        mebibytes(charged),
        mebibytes(resident),
        cpu * 100.0,
    ))
}
