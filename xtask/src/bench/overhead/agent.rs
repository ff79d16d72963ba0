//! The agent as a node runs it, with its default configuration or with domains turned off.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::process::{Place, Process};
use super::programs::Totals;
use crate::cmd;
use crate::e2e::http;
use crate::e2e::samples::{self, Sample};

/// The agent's program, and the directory for its files while it runs.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) program: PathBuf,
    pub(super) directory: PathBuf,
}

/// A started agent that is ready.
#[derive(Debug)]
pub(super) struct Running {
    process: Process,
    port: u16,
}

/// A domain that is not active, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Off {
    pub(super) domain: String,
    pub(super) reason: String,
}

impl Agent {
    /// Starts the agent and waits until `/readyz` reports that it measures.
    pub(super) fn start(&self, off: &[String]) -> Result<Running> {
        self.start_with(&configuration(off))
    }

    /// The same with the default configuration, and the kernel's statistics of BPF programs on.
    pub(super) fn start_counting(&self) -> Result<Running> {
        self.start_with("program_statistics = true\n")
    }

    fn start_with(&self, configuration: &str) -> Result<Running> {
        // The agent does not report the port that the kernel chose, so a port is chosen and released
        // beforehand.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = self.directory.join("sysprobe.toml");
        fs::write(&config, configuration).context("writing the agent's configuration")?;
        let log = self.directory.join("agent.log");
        let mut command = cmd::tool(&self.program);
        command.args(["agent", "--listen", &format!("127.0.0.1:{port}"), "--config"]).arg(config);
        command.arg("--socket").arg(self.directory.join("agent.sock"));
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut process = Process::start(&mut command, Place::default())?;
        let is_ready = |_| http::get(port, "/readyz").is_ok_and(|answer| answer.status == 200);
        let started = process.until("it is ready", is_ready);
        started.with_context(|| fs::read_to_string(&log).unwrap_or_default().trim().to_owned())?;
        Ok(Running { process, port })
    }

    pub(super) fn version(&self) -> Result<String> {
        Ok(cmd::output(cmd::tool(&self.program).arg("--version"))?.trim().to_owned())
    }
}

impl Running {
    /// The active domains.
    pub(super) fn on(&self) -> Result<Vec<String>> {
        Ok(working(&self.scrape()?))
    }

    /// The domains that are enabled in the configuration but not active.
    pub(super) fn off(&mut self) -> Result<Vec<Off>> {
        self.process.still_runs()?;
        Ok(failed(&self.scrape()?))
    }

    /// The totals of each program so far.
    pub(super) fn totals(&self) -> Result<Totals> {
        Ok(Totals::of(&self.scrape()?))
    }

    fn scrape(&self) -> Result<Vec<Sample>> {
        let answer = http::get(self.port, "/metrics")?;
        if answer.status != 200 {
            bail!("the agent answered {} to a scrape", answer.status);
        }
        samples::parse(&answer.body)
    }
}

/// Domains that are left out have their defaults.
fn configuration(off: &[String]) -> String {
    let mut text = "[domains]\n".to_owned();
    for domain in off {
        writeln!(text, "{domain} = false").expect("writing to a string cannot fail");
    }
    text
}

fn working(samples: &[Sample]) -> Vec<String> {
    let up = samples.iter().filter(|sample| sample.name == "sysprobe_agent_domain_up" && sample.value > 0.0);
    up.filter_map(|sample| sample.labels.get("domain").cloned()).collect()
}

fn failed(samples: &[Sample]) -> Vec<Off> {
    let working = working(samples);
    let told = samples.iter().filter(|sample| sample.name == "sysprobe_agent_domain_info");
    let told = told.filter_map(|sample| {
        let label = |name| sample.labels.get(name).cloned();
        Some(Off { domain: label("domain")?, reason: label("reason")? })
    });
    told.filter(|off| !working.contains(&off.domain) && !off.reason.contains("by the configuration"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAPE: &str = r#"
sysprobe_agent_domain_up{domain="sched"} 0.0
sysprobe_agent_domain_up{domain="vfs"} 1.0
sysprobe_agent_domain_up{domain="pressure"} 0.0
sysprobe_agent_domain_info{domain="sched",hook="",reason="turned off by the configuration"} 1.0
sysprobe_agent_domain_info{domain="vfs",hook="tp_btf",reason="fentry: the kernel refuses it"} 1.0
sysprobe_agent_domain_info{domain="pressure",hook="file",reason="only v2 has it"} 1.0
"#;

    #[test]
    fn a_domain_that_fails_is_told_from_one_that_is_not_wanted() {
        let samples = samples::parse(SCRAPE).unwrap();
        assert_eq!(working(&samples), ["vfs"]);
        let pressure = Off { domain: "pressure".to_owned(), reason: "only v2 has it".to_owned() };
        assert_eq!(failed(&samples), [pressure]);
    }

    #[test]
    fn only_what_is_off_is_configured() {
        assert_eq!(configuration(&[]), "[domains]\n");
        assert_eq!(
            configuration(&["vfs".to_owned(), "tcp".to_owned()]),
            "[domains]\nvfs = false\ntcp = false\n"
        );
    }
}
