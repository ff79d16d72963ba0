//! fio reads blocks of 4 KiB from a file in the page cache: the cost of a storage system call without a
//! device.
//!
//! fio is server and client in one. Its CPU time is the value that it reports for its reading thread, which
//! excludes its start-up.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::super::figures::Measured;
use super::{Bench, Load, Rig, program};
use crate::cmd;

/// Small compared with any machine's memory.
const MEBIBYTES: usize = 64;

struct Fio {
    rig: Rig,
    file: PathBuf,
}

pub(super) fn open(bench: &Bench) -> Result<Box<dyn Load>> {
    let file = bench.directory.join("fio.data");
    let mut written = File::create(&file).with_context(|| format!("creating {}", file.display()))?;
    let mebibyte = vec![1; 1 << 20];
    for _ in 0..MEBIBYTES {
        written.write_all(&mebibyte).with_context(|| format!("writing {}", file.display()))?;
    }
    // Otherwise writeback would run while reads are measured.
    written.sync_all()?;
    Ok(Box::new(Fio { rig: bench.rig(None)?, file }))
}

impl Load for Fio {
    fn run(&mut self, seconds: u32) -> Result<Measured> {
        let mut command = cmd::tool(program("fio")?);
        command.arg("--name=reads").arg(format!("--filename={}", self.file.display()));
        command.args(["--rw=randread", "--bs=4k", "--ioengine=psync", "--output-format=json"]);
        command.arg(format!("--size={MEBIBYTES}m"));
        // By default, fio drops the file from the page cache first.
        command.args(["--invalidate=0", "--time_based", &format!("--runtime={seconds}")]);
        report(&self.rig.server().output(&mut command)?)
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.file));
    }
}

fn report(text: &str) -> Result<Measured> {
    // Warnings may precede the document.
    let start = text.find('{').unwrap_or(0);
    let document: Value = serde_json::from_str(&text[start..]).context("what fio prints is no JSON")?;
    let number = |path: &str| {
        let value = document.pointer(&format!("/jobs/0/{path}")).and_then(Value::as_f64);
        value.with_context(|| format!("fio's report has no {path}"))
    };
    let (reads, seconds) = (number("read/total_ios")?, number("read/runtime")? / 1e3);
    // In percent of the run time.
    let busy = (number("usr_cpu")? + number("sys_cpu")?) / 100.0;
    Ok(Measured {
        requests: reads,
        cpu_ns: busy * seconds * 1e9 / reads,
        rate: reads / seconds,
        median_ns: number("read/clat_ns/percentile/50.000000")?,
        p99_ns: number("read/clat_ns/percentile/99.000000")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_prints_is_read() {
        let text = r#"fio: a warning
            {"jobs": [{"read": {"total_ios": 1000000, "runtime": 2000,
                "clat_ns": {"percentile": {"50.000000": 644, "99.000000": 1208}}},
                "usr_cpu": 20.0, "sys_cpu": 75.0}]}"#;
        let wanted = Measured {
            requests: 1_000_000.0,
            cpu_ns: 1_900.0,
            rate: 500_000.0,
            median_ns: 644.0,
            p99_ns: 1_208.0,
        };
        assert_eq!(report(text).unwrap(), wanted);
    }

    #[test]
    fn a_report_without_percentiles_is_refused() {
        let text =
            r#"{"jobs": [{"read": {"total_ios": 10, "runtime": 2000}, "usr_cpu": 1.0, "sys_cpu": 1.0}]}"#;
        assert!(report(text).unwrap_err().to_string().contains("clat_ns"));
    }
}
