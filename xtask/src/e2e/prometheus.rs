//! A real Prometheus beside the cluster. It selects and names the agents' pods with the configuration of
//! `deploy/prometheus/README.md`, word for word, and evaluates the rules from there with shorter times.
//!
//! Debian builds Prometheus without Kubernetes discovery. Instead, the rig asks the API server and writes the
//! targets to a file, with the labels that discovery would have set.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::boards::questions::Server;
use super::parts::Parts;
use super::service::Service;
use super::{http, kube, places};
use crate::paths;

const PORT: u16 = 9090;

/// A scenario cannot run for hours, so the rules' minutes are replaced by these seconds.
const WINDOW: &str = "30s";
const HOLD: &str = "4s";

/// The running server; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Prometheus {
    port: u16,
    _service: Service,
}

impl Prometheus {
    pub(super) fn start(parts: &Parts) -> Result<Self> {
        let directory = directory();
        fs::create_dir_all(&directory)?;
        discover()?;
        let config = directory.join("prometheus.yml");
        fs::write(&config, configuration(&rules(&directory)?)?)?;
        let mut command = parts.packaged("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{PORT}"));
        let mut service = Service::start("prometheus", &mut command)?;
        service.ready(|| http::get(PORT, "/-/ready").is_ok_and(|answer| answer.status == 200))?;
        Ok(Self { port: PORT, _service: service })
    }

    /// The current series of an expression.
    pub(super) fn series(&self, expression: &str) -> Result<Vec<Value>> {
        let mut data = self.ask(&format!("/api/v1/query?query={}", escape(expression)))?;
        match data["result"].take() {
            Value::Array(series) => Ok(series),
            other => bail!("{expression} is {other}"),
        }
    }

    /// The value of an expression that has one series.
    pub(super) fn value(&self, expression: &str) -> Result<Option<f64>> {
        let series = self.series(expression)?;
        Ok(series.first().and_then(|one| one["value"][1].as_str()?.parse().ok()))
    }

    /// All rules, with the result of their last evaluation.
    pub(super) fn rules(&self) -> Result<Vec<Value>> {
        let data = self.ask("/api/v1/rules")?;
        let groups = data["groups"].as_array().context("no groups")?;
        Ok(groups.iter().filter_map(|group| group["rules"].as_array()).flatten().cloned().collect())
    }

    /// The URLs that Prometheus scrapes.
    pub(super) fn targets(&self) -> Result<Vec<String>> {
        let data = self.ask("/api/v1/targets?state=active")?;
        let targets = data["activeTargets"].as_array().context("no targets")?;
        Ok(targets.iter().filter_map(|target| target["scrapeUrl"].as_str().map(str::to_owned)).collect())
    }

    fn ask(&self, path: &str) -> Result<Value> {
        read(&http::get(self.port, path)?.body)
    }

    /// The labels of the firing alerts with this name.
    pub(super) fn firing(&self, alert: &str) -> Result<Vec<Value>> {
        self.series(&format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}"))
    }
}

impl Server for Prometheus {
    fn query(&self, expression: &str) -> Option<Result<Value, String>> {
        let answer = http::get(self.port, &format!("/api/v1/query?query={}", escape(expression))).ok()?;
        Some(read(&answer.body).map_err(|error| error.to_string()))
    }

    fn label_values(&self, label: &str, selector: &str) -> Option<Vec<String>> {
        let data = self.ask(&format!("/api/v1/label/{label}/values?match[]={}", escape(selector))).ok()?;
        Some(data.as_array()?.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect())
    }
}

/// Writes a target for every port of every pod that the API server knows, as Prometheus' own discovery does
/// for `role: pod`. Call it after pods have changed.
pub(super) fn discover() -> Result<()> {
    let pods = kube::get("/api/v1/pods")?;
    let mut found = Vec::new();
    for pod in pods["items"].as_array().context("no list of pods")? {
        let Some(address) = pod["status"]["podIP"].as_str() else { continue };
        for container in pod["spec"]["containers"].as_array().context("a pod without containers")? {
            for port in container["ports"].as_array().map(Vec::as_slice).unwrap_or_default() {
                let port = &port["containerPort"];
                let labels = json!({
                    // The operator sets these target labels unless the scrape configuration says otherwise;
                    // they must not replace the series' own labels.
                    "namespace": pod["metadata"]["namespace"],
                    "pod": pod["metadata"]["name"],
                    "container": container["name"],
                    "__meta_kubernetes_namespace": pod["metadata"]["namespace"],
                    "__meta_kubernetes_pod_name": pod["metadata"]["name"],
                    "__meta_kubernetes_pod_node_name": pod["spec"]["nodeName"],
                    "__meta_kubernetes_pod_container_name": container["name"],
                    "__meta_kubernetes_pod_container_port_number": port.to_string(),
                });
                found.push(json!({ "targets": [format!("{address}:{port}")], "labels": labels }));
            }
        }
    }
    let new = directory().join("targets.new");
    fs::write(&new, Value::from(found).to_string())?;
    // Prometheus rereads the file whenever it changes.
    fs::rename(new, targets()).context("writing the targets")
}

fn directory() -> PathBuf {
    places::state().join("prometheus")
}

fn targets() -> PathBuf {
    directory().join("targets.json")
}

fn read(body: &str) -> Result<Value> {
    let mut answer: Value = serde_json::from_str(body).context("Prometheus does not answer in JSON")?;
    if answer["status"] != "success" {
        bail!("Prometheus refuses: {}", answer["error"]);
    }
    Ok(answer["data"].take())
}

/// Escapes text for the query of a URL.
fn escape(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn configuration(rules: &[PathBuf]) -> Result<String> {
    let page = fs::read_to_string(paths::root().join("deploy/prometheus/README.md"))?;
    let scrape = page.split("```yaml\nscrape_configs:").nth(1).and_then(|rest| rest.split("```").next());
    let scrape = scrape.context("deploy/prometheus/README.md has no scrape_configs")?;
    let discovery = "kubernetes_sd_configs:\n      - role: pod\n";
    if !scrape.contains(discovery) {
        bail!("deploy/prometheus/README.md does not find pods by `{discovery}`");
    }
    let found =
        format!("file_sd_configs:\n      - {{files: ['{}'], refresh_interval: 1s}}\n", targets().display());
    let scrape = scrape.replace(discovery, &found);
    let rules: Vec<_> = rules.iter().map(|file| format!("'{}'", file.display())).collect();
    Ok(format!(
        "global: {{scrape_interval: 2s, evaluation_interval: 2s}}\nrule_files: [{}]\nscrape_configs:{scrape}",
        rules.join(", ")
    ))
}

/// The rules of `deploy/prometheus` with shorter times.
fn rules(directory: &std::path::Path) -> Result<Vec<PathBuf>> {
    let hasten = |name: &str| {
        let text = fs::read_to_string(paths::root().join("deploy/prometheus").join(name))?;
        let file = directory.join(name);
        fs::write(&file, hastened(&text))?;
        Ok(file)
    };
    ["recording.rules.yaml", "alerts.rules.yaml"].into_iter().map(hasten).collect()
}

fn hastened(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("for: ") {
        Some(_) => line.replace(line.trim_start(), &format!("for: {HOLD}")),
        None => ["[2m]", "[3m]", "[5m]", "[10m]"]
            .iter()
            .fold(line.to_owned(), |line, window| line.replace(window, &format!("[{WINDOW}]"))),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_hastened_and_otherwise_the_same() {
        let text = "expr: rate(a[5m]) > 5\n        for: 15m\n        for_us: [1h]";
        assert_eq!(hastened(text), "expr: rate(a[30s]) > 5\n        for: 4s\n        for_us: [1h]");
        assert_eq!(hastened("a[2m] or a[3m] or a[10m]"), "a[30s] or a[30s] or a[30s]");
    }

    #[test]
    fn selectors_can_be_asked_for() {
        assert_eq!(escape("a{b=\"c\"}"), "a%7Bb%3D%22c%22%7D");
    }

    #[test]
    fn the_page_says_how_pods_are_found() {
        let text = configuration(&["/x.yaml".into()]).unwrap();
        assert!(text.contains("honor_labels: true") && text.contains("targets.json"), "{text}");
    }
}
