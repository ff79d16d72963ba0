//! What each layout takes of the kernel's memory on a large node: computed, and as the kernel accounts it for
//! maps of these sizes made on this machine.

use std::fmt::Write;

use anyhow::{Context, Result};
use aya::{Ebpf, EbpfLoader};
use sysprobe_agent::host::Cpus;
use sysprobe_agent::plan::{CpuShards, Plan};
use sysprobe_common::sched::SchedStats;

use crate::system::{descriptor, memlock, newest_map};
use crate::variants::{Bench, OBJECT, TASKS, sizes};

const CPUS: u32 = 64;
/// 500 pods have a cgroup for the sandbox and for each container, and the host has its units.
const SLOTS: u32 = 2048;
const STATS: u64 = size_of::<SchedStats>() as u64;
/// `struct htab_elem` and an eight-byte key.
const ELEMENT: u64 = 48 + 8;
const BUCKET: u64 = 16;

/// One layout: the formula in words, what it gives for so many CPUs, and the map that shows it.
struct Layout {
    title: &'static str,
    formula: &'static str,
    bytes: fn(cpus: u64) -> u64,
    map: &'static str,
    /// Whether this machine's map has this machine's number of CPUs, whatever the map's dimensions.
    per_cpu: bool,
}

/// Eight CPUs to a cache.
pub(crate) fn cpus() -> Cpus {
    let online: Vec<u32> = (0..CPUS).collect();
    Cpus { possible: CPUS, caches: online.chunks(8).map(<[u32]>::to_vec).collect(), online }
}

fn shards() -> u32 {
    CpuShards::new(&cpus(), 16).shards.count
}

const fn hash(value: u64, entries: u32) -> u64 {
    entries as u64 * (ELEMENT + value) + entries.next_power_of_two() as u64 * BUCKET
}

const LAYOUTS: [Layout; 6] = [
    Layout {
        title: "hash by cgroup id",
        formula: "slots x (56 + stats) + buckets x 16",
        bytes: |_| hash(STATS, SLOTS),
        map: "BENCH_HASH",
        per_cpu: false,
    },
    Layout {
        title: "per-CPU hash by cgroup id",
        formula: "slots x (56 + 8 + CPUs x stats) + buckets x 16",
        bytes: |cpus| hash(8 + cpus * STATS, SLOTS),
        map: "BENCH_PCPU_HASH",
        per_cpu: true,
    },
    Layout {
        title: "slot, per-CPU array",
        formula: "slots x (8 + CPUs x stats)",
        bytes: |cpus| u64::from(SLOTS) * (8 + cpus * STATS),
        map: "BENCH_PCPU",
        per_cpu: true,
    },
    Layout {
        title: "**slot, mapped array, at most 16 shards (product)**",
        formula: "slots x shards x stats",
        bytes: |_| u64::from(SLOTS) * u64::from(shards()) * STATS,
        map: "BENCH_MMAP",
        per_cpu: false,
    },
    Layout {
        title: "cgroup id to slot (with both of the latter)",
        formula: "slots x (56 + 8) + buckets x 16",
        bytes: |_| hash(8, SLOTS),
        map: "BENCH_SLOTS",
        per_cpu: false,
    },
    Layout {
        title: "time stamps by pid, 32,768 tasks",
        formula: "tasks x (56 + 8) + buckets x 16",
        bytes: |_| hash(8, TASKS),
        map: "BENCH_STARTS",
        per_cpu: false,
    },
];

pub(crate) fn report(bench: &Bench) -> Result<String> {
    let here = bench.facts.cpus.possible;
    let object = load(here)?;
    let mut out = format!(
        "## Kernel memory: 500 pods ({SLOTS} slots), {CPUS} CPUs\n\n\
         KiB; what the kernel accounts is `memlock` of a map of these dimensions. Per-CPU maps always have \
         this machine's {here} CPUs: their formula is checked for {here}. What is kept of a cgroup (`stats`) \
         has {STATS} bytes.\n\n\
         | layout | formula | KiB for {CPUS} CPUs | formula here | accounted here \
         |\n|---|---|---:|---:|---:|\n",
    );
    for layout in &LAYOUTS {
        let map = object.map(layout.map).with_context(|| format!("no map {}", layout.map))?;
        let accounted = memlock(descriptor(map)?)?;
        let cpus = if layout.per_cpu { here } else { CPUS };
        writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            layout.title,
            layout.formula,
            kib((layout.bytes)(CPUS.into())),
            kib((layout.bytes)(cpus.into())),
            kib(accounted)
        )?;
    }
    drop(object);
    out.push_str(&product(bench)?);
    Ok(out)
}

/// The maps only; no program is loaded.
fn load(cpus: u32) -> Result<Ebpf> {
    let mut loader = EbpfLoader::new();
    loader.allow_unsupported_maps();
    for (name, entries) in sizes(SLOTS, shards(), cpus) {
        loader.map_max_entries(name, entries);
    }
    Ok(loader.load(OBJECT)?)
}

/// All maps of the product as the plan computes them for such a machine, against those that it really makes.
fn product(bench: &Bench) -> Result<String> {
    let mut facts = bench.facts.clone();
    facts.cpus = cpus();
    let mut config = bench.config.clone();
    config.slots = SLOTS;
    let plan = Plan::new(&facts, &config);
    let sched = bench.product(&plan)?;
    let (mut planned, mut accounted) = (0, 0);
    for map in plan.maps.iter().filter(|map| map.domain == "sched") {
        planned += map.bytes;
        let info = newest_map(map.map)?;
        accounted += memlock(std::os::fd::AsFd::as_fd(&info.fd()?))?;
    }
    drop(sched);
    Ok(format!(
        "\nAll maps of `sched` for that machine: {} KiB planned (`sysprobe check`), {} KiB accounted. All \
         domains: {} KiB planned.\n",
        kib(planned),
        kib(accounted),
        kib(plan.map_bytes())
    ))
}

fn kib(bytes: u64) -> String {
    (bytes.div_ceil(1024)).to_string()
}
