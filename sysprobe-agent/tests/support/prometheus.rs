//! A real Prometheus, scraping one agent: Debian's package `prometheus`, or the program that the environment
//! variable `SYSPROBE_TEST_PROMETHEUS` names.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::agent::listening_port;
use super::{http, until};

/// The running server; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Prometheus {
    process: Child,
    directory: TempDir,
    port: u16,
    options: Options,
}

/// How to start Prometheus.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Requests protobuf, and keeps native histograms instead of classic ones.
    pub(crate) native_histograms: bool,
    /// Rule files, evaluated each second.
    pub(crate) rules: Vec<PathBuf>,
    /// Gives the target the labels of a pod in a cluster.
    pub(crate) as_in_a_cluster: bool,
    /// Adds a 0 at a series' creation time.
    pub(crate) created_timestamps: bool,
    /// The scrape interval; one second by default.
    pub(crate) scrape_interval_seconds: Option<u32>,
}

fn program() -> String {
    env::var("SYSPROBE_TEST_PROMETHEUS").unwrap_or_else(|_| "prometheus".to_owned())
}

impl Prometheus {
    pub(crate) fn start(target: u16) -> Self {
        Self::with(target, &Options::default())
    }

    pub(crate) fn with_native_histograms(target: u16) -> Self {
        Self::with(target, &Options { native_histograms: true, ..Options::default() })
    }

    pub(crate) fn with(target: u16, options: &Options) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("prometheus.yml"), configuration(options)).expect("written");
        fs::write(at("targets.json"), targets(target, options)).expect("written");
        let mut command = Command::new(program());
        if options.native_histograms {
            command.arg("--enable-feature=native-histograms");
        }
        if options.created_timestamps {
            command.arg("--enable-feature=created-timestamp-zero-ingestion");
        }
        command.arg("--web.listen-address=127.0.0.1:0").stdin(Stdio::null());
        command.arg(format!("--config.file={}", at("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", at("data").display()));
        command.stderr(File::create(at("log")).expect("a log"));
        let process = command.spawn().expect("the package `prometheus` is installed");
        let port = until("Prometheus listens", || listening_port(process.id()));
        Self { process, directory, port, options: options.clone() }
    }

    /// Makes it scrape the agent that replaces the first one, as the same target.
    pub(crate) fn follow(&self, target: u16) {
        let (new, file) = (self.directory.path().join("new"), self.directory.path().join("targets.json"));
        fs::write(&new, targets(target, &self.options)).expect("written");
        fs::rename(new, file).expect("at once");
    }

    /// The data of an answer; `None` while there is no answer.
    pub(crate) fn ask(&self, path: &str) -> Option<Value> {
        self.answer(path)?.ok()
    }

    /// The current value of an expression, or the error in it. `None` while Prometheus does not answer.
    pub(crate) fn query(&self, expression: &str) -> Option<Result<Value, String>> {
        self.answer(&format!("/api/v1/query?query={}", http::escape(expression)))
    }

    fn answer(&self, path: &str) -> Option<Result<Value, String>> {
        let answer = http::get(self.port, path, "*/*").ok()?;
        let mut json: Value = serde_json::from_str(&answer.body).ok()?;
        Some(match json["status"].as_str()? {
            "success" => Ok(json["data"].take()),
            _ => Err(json["error"].to_string()),
        })
    }

    /// The value of an expression that has one series.
    pub(crate) fn value(&self, expression: &str) -> Option<f64> {
        let data = self.query(expression)?.ok()?;
        data["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Whether it is recent enough for all requested features.
    pub(crate) fn knows_its_features(&self) -> bool {
        !self.log().contains("Unknown option for --enable-feature")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

fn targets(target: u16, options: &Options) -> String {
    let mut labels = serde_json::json!({"instance": "node-a"});
    if options.as_in_a_cluster {
        // The target pod has these labels too. The agent's series have their own, which must be kept.
        labels["node"] = "node-a".into();
        labels["namespace"] = "monitoring".into();
        labels["pod"] = "sysprobe-x7k2p".into();
        labels["container"] = "sysprobe".into();
    }
    serde_json::json!([{"targets": [format!("127.0.0.1:{target}")], "labels": labels}]).to_string()
}

fn configuration(options: &Options) -> String {
    let rules: Vec<_> = options.rules.iter().map(|file| format!("'{}'", file.display())).collect();
    let interval = options.scrape_interval_seconds.unwrap_or(1);
    format!(
        "global: {{scrape_interval: {interval}s, scrape_timeout: {interval}s, evaluation_interval: 1s}}\n\
         rule_files: [{}]\n\
         scrape_configs:\n\
         - job_name: sysprobe\n  \
           honor_labels: {}\n  \
           file_sd_configs: [{{files: [targets.json]}}]\n",
        rules.join(", "),
        options.as_in_a_cluster,
    )
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
