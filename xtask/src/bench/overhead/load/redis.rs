//! Redis answers GET requests for a small value, sent by its own benchmark.

use std::process::Stdio;

use anyhow::{Context, Result};

use super::super::figures::Measured;
use super::super::network::Network;
use super::super::process::{self, Process};
use super::{Bench, Load, Rig, program};
use crate::cmd;

/// The network has no other server.
const PORT: u16 = 6379;

/// The number of requests with which the first part measures the rate.
const FIRST: f64 = 20_000.0;

struct Redis {
    server: Process,
    rig: Rig,
    address: &'static str,
    /// Requests per second in the last part. The client takes a number of requests instead of a time.
    rate: Option<f64>,
}

/// The figures that the client prints, in requests per second and nanoseconds.
#[derive(Debug, PartialEq)]
struct Report {
    rate: f64,
    median_ns: f64,
    p99_ns: f64,
}

pub(super) fn open(bench: &Bench) -> Result<Box<dyn Load>> {
    let network = Network::loopback()?;
    let address = network.address;
    let rig = bench.rig(Some(network))?;
    let mut command = cmd::tool(program("redis-server")?);
    command.args(["--bind", address, "--port", &PORT.to_string(), "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(&bench.directory).args(["--daemonize", "no"]).stdout(Stdio::null());
    let mut server = Process::start(&mut command, rig.server())?;
    server.until("it listens", |pid| process::listens(pid, PORT))?;
    let redis = Redis { server, rig, address, rate: None };
    redis.ask("set", FIRST)?;
    Ok(Box::new(redis))
}

impl Redis {
    fn ask(&self, test: &str, requests: f64) -> Result<Report> {
        let mut command = cmd::tool(program("redis-benchmark")?);
        command.args(["-h", self.address, "-p", &PORT.to_string(), "-c", "8", "-t", test]);
        command.args(["-n", &format!("{requests:.0}"), "--csv", "--precision", "3"]);
        report(&self.rig.client().output(&mut command)?)
    }
}

impl Load for Redis {
    fn run(&mut self, seconds: u32) -> Result<Measured> {
        let rate = match self.rate {
            Some(rate) => rate,
            None => self.ask("get", FIRST)?.rate,
        };
        let requests = (rate * f64::from(seconds)).round();
        let before = self.rig.server.usage_ns()?;
        let Report { rate, median_ns, p99_ns } = self.ask("get", requests)?;
        let used = self.rig.server.usage_ns()? - before;
        self.server.still_runs()?;
        self.rate = Some(rate);
        Ok(Measured { requests, cpu_ns: used / requests, rate, median_ns, p99_ns })
    }
}

/// The columns are found by title: other versions have additional ones.
fn report(text: &str) -> Result<Report> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("\"test\""));
    let titles = lines.next().map(cells).unwrap_or_default();
    let values = lines.next().map(cells).unwrap_or_default();
    let value = |title: &str| {
        let column = titles.iter().position(|other| *other == title)?;
        values.get(column)?.parse::<f64>().ok()
    };
    let found = (|| {
        Some(Report {
            rate: value("rps")?,
            median_ns: value("p50_latency_ms")? * 1e6,
            p99_ns: value("p99_latency_ms")? * 1e6,
        })
    })();
    found.with_context(|| format!("redis-benchmark's report is not what it was expected to be: {text}"))
}

fn cells(line: &str) -> Vec<&str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_benchmark_prints_is_read() {
        let text = "WARNING: Could not fetch server CONFIG\n\
            \"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
            \"p99_latency_ms\",\"max_latency_ms\"\n\
            \"GET\",\"36231.89\",\"0.143\",\"0.016\",\"0.055\",\"0.095\",\"3.271\",\"8.367\"\n";
        let wanted = Report { rate: 36_231.89, median_ns: 55_000.0, p99_ns: 3_271_000.0 };
        assert_eq!(report(text).unwrap(), wanted);
    }

    #[test]
    fn a_report_without_a_row_is_refused() {
        assert!(report("\"test\",\"rps\"\n").is_err());
        assert!(report("Could not connect to Redis\n").is_err());
    }
}
