//! nginx answers `200` without a body to requests of wrk: the cheapest HTTP request, in which any added cost
//! weighs most.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::super::figures::Measured;
use super::super::network::Network;
use super::super::process::{self, Process};
use super::{Bench, Load, Rig, program};
use crate::cmd;

/// The network has no other server.
const PORT: u16 = 8080;

/// Only a server that hangs takes this long, even on a busy machine.
const PATIENCE: &str = "30s";

/// `ADDRESS` stands for the listening address; `cargo xtask cost` uses the same file.
const CONFIGURATION: &str = include_str!("../../../../../sysprobe-agent/benches/cost/programs/nginx.conf");

struct Nginx {
    server: Process,
    rig: Rig,
    url: String,
    connections: u32,
}

/// The figures that wrk prints, in requests and nanoseconds.
#[derive(Debug, PartialEq)]
struct Report {
    requests: f64,
    rate: f64,
    median_ns: f64,
    p99_ns: f64,
}

pub(super) fn open(bench: &Bench, network: Network, connections: u32) -> Result<Box<dyn Load>> {
    let directory = bench.directory.join("nginx");
    fs::create_dir_all(&directory)?;
    let address = format!("{}:{PORT}", network.address);
    let url = format!("http://{address}/");
    let config = directory.join("nginx.conf");
    fs::write(&config, CONFIGURATION.replace("ADDRESS", &address))
        .context("writing nginx's configuration")?;
    let rig = bench.rig(Some(network))?;
    let mut command = cmd::tool(program("nginx")?);
    command.arg("-p").arg(&directory).arg("-c").arg(&config).args(["-e", "stderr"]).stdout(Stdio::null());
    let mut server = Process::start(&mut command, rig.server())?;
    server.until("it listens", |pid| process::listens(pid, PORT))?;
    Ok(Box::new(Nginx { server, rig, url, connections }))
}

impl Load for Nginx {
    fn run(&mut self, seconds: u32) -> Result<Measured> {
        let mut command = cmd::tool(program("wrk")?);
        command.args([
            "--threads",
            "1",
            "--latency",
            "--timeout",
            PATIENCE,
            "--duration",
            &format!("{seconds}s"),
        ]);
        command.args(["--connections", &self.connections.to_string(), &self.url]);
        let before = self.rig.server.usage_ns()?;
        let text = self.rig.client().output(&mut command)?;
        let used = self.rig.server.usage_ns()? - before;
        self.server.still_runs()?;
        let Report { requests, rate, median_ns, p99_ns } = report(&text)?;
        Ok(Measured { requests, cpu_ns: used / requests, rate, median_ns, p99_ns })
    }
}

fn report(text: &str) -> Result<Report> {
    if let Some(line) = text.lines().find(|line| line.contains("Socket errors") || line.contains("Non-2xx")) {
        bail!("wrk met errors: {}", line.trim());
    }
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    let found = (|| {
        Some(Report {
            requests: requests?,
            rate: after("Requests/sec:")?.parse().ok()?,
            median_ns: nanoseconds(after("50%")?)?,
            p99_ns: nanoseconds(after("99%")?)?,
        })
    })();
    found.with_context(|| format!("wrk's report is not what it was expected to be: {text}"))
}

/// Parses `168.00us`, `1.20ms`, `2.00s`.
fn nanoseconds(text: &str) -> Option<f64> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9)];
    let (number, unit) = units.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)))?;
    Some(number.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Running 1s test @ http://127.0.0.1:8080/
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   178.00us  102.28us   4.93ms   96.25%
    Req/Sec    45.50k     3.53k   51.21k    63.64%
  Latency Distribution
     50%  168.00us
     75%  180.00us
     90%  205.00us
     99%    1.20ms
  49871 requests in 1.10s, 5.33MB read
Requests/sec:  45321.11
Transfer/sec:      4.84MB
";

    #[test]
    fn what_wrk_prints_is_read() {
        let wanted =
            Report { requests: 49_871.0, rate: 45_321.11, median_ns: 168_000.0, p99_ns: 1_200_000.0 };
        assert_eq!(report(TEXT).unwrap(), wanted);
        assert!(report("Requests/sec:  45321.11").is_err());
    }

    #[test]
    fn errors_are_no_measurement() {
        let text = format!("{TEXT}  Socket errors: connect 0, read 3, write 0, timeout 0\n");
        assert!(report(&text).unwrap_err().to_string().contains("read 3"));
        let text = format!("{TEXT}  Non-2xx or 3xx responses: 49871\n");
        assert!(report(&text).is_err());
    }

    #[test]
    fn latencies_have_units() {
        assert_eq!(nanoseconds("2.00s"), Some(2e9));
        assert_eq!(nanoseconds("1.50m"), Some(90e9));
        assert_eq!(nanoseconds("fast"), None);
    }
}
