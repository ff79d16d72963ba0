//! JSON schemas for manifests, in the form that kubeconform reads. Kubernetes' own types come from its
//! OpenAPI document, the Prometheus operator's from its custom resource definitions. Both are in the Go
//! modules of these projects.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::tools::{SOURCES, Tools};
use crate::{golang, paths, say};

const KUBERNETES: &str = "k8s.io/kubernetes@v1.36.3";
const OPERATOR: &str = "github.com/prometheus-operator/prometheus-operator@v0.85.0";
const CUSTOM: [&str; 3] = ["podmonitors", "prometheusrules", "servicemonitors"];

/// Writes the schemas; returns their directory.
pub(super) fn make() -> Result<PathBuf> {
    let directory = paths::root().join("target/chart/schemas");
    fs::create_dir_all(&directory)?;
    let of_kubernetes = kubernetes(&directory)?;
    let customs = custom_resources()?;
    for file in &customs {
        custom(file, &directory).with_context(|| format!("reading {}", file.display()))?;
    }
    say::step(format_args!(
        "{of_kubernetes} types of {KUBERNETES} and {} of {OPERATOR} are known.",
        customs.len()
    ));
    Ok(directory)
}

/// Fetches the modules.
pub(super) fn fetch() -> Result<()> {
    let sources = paths::root().join(SOURCES);
    [KUBERNETES, OPERATOR].iter().try_for_each(|module| golang::download(module, &sources).map(drop))
}

/// Checks that validation rejects unknown fields, placed where they would do harm. A validation that never
/// fails would not notice anything else either.
pub(super) fn refused(tools: &Tools, schemas: &Path) -> Result<()> {
    for (name, spec) in [
        ("hostPid", json!({ "hostPid": true, "containers": [] })),
        (
            "readOnlyRootFs",
            json!({ "containers": [{ "name": "a", "securityContext": { "readOnlyRootFs": true } }] }),
        ),
    ] {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" }, "spec": spec });
        let said = validate(tools, schemas, name, &pod.to_string()).err();
        let said = said.with_context(|| format!("the schemas know of `{name}`"))?.to_string();
        ensure!(said.contains(name), "not for `{name}` it is refused: {said}");
    }
    Ok(())
}

/// The custom resource definitions of the objects that the chart creates.
pub(crate) fn custom_resources() -> Result<Vec<PathBuf>> {
    let module = golang::download(OPERATOR, &paths::root().join(SOURCES))?;
    let directory = module.join("jsonnet/prometheus-operator");
    let file = |name| directory.join(format!("{name}-crd.json"));
    Ok(CUSTOM.iter().map(file).collect())
}

/// Validates manifests strictly: an unknown field is a fault.
pub(super) fn validate(tools: &Tools, schemas: &Path, name: &str, manifests: &str) -> Result<()> {
    let places = format!("{}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json", schemas.display());
    let mut check = tools.command("kubeconform");
    check.args(["-strict", "-summary", "-schema-location", &places, "-"]);
    check.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = check.spawn().context("starting kubeconform")?;
    child.stdin.take().context("kubeconform has no input")?.write_all(manifests.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{name}: {}", said.trim());
    }
    say::step(format_args!("{name}: {}", said.trim()));
    Ok(())
}

fn kubernetes(directory: &Path) -> Result<usize> {
    let module = golang::download(KUBERNETES, &paths::root().join(SOURCES))?;
    let text = fs::read_to_string(module.join("api/openapi-spec/swagger.json"))?;
    // In the document, types refer to each other locally. Here each type is a file of its own that refers to
    // a common one.
    let text = text.replace("\"#/definitions/", "\"_definitions.json#/definitions/");
    let mut document: Value = serde_json::from_str(&text).context("reading the OpenAPI document")?;
    // OpenAPI 2 cannot express this type.
    document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] =
        json!({ "type": ["integer", "string"] });
    let types = document["definitions"].as_object_mut().context("the OpenAPI document has no types")?;
    types.values_mut().for_each(close);
    fs::write(directory.join("_definitions.json"), json!({ "definitions": types }).to_string())?;
    let mut written = 0;
    for schema in types.values() {
        let Some([kind]) = schema["x-kubernetes-group-version-kind"].as_array().map(Vec::as_slice) else {
            continue;
        };
        fs::write(directory.join(file_name(kind)), schema.to_string())?;
        written += 1;
    }
    Ok(written)
}

/// The file name that kubeconform's template results in.
fn file_name(kind: &Value) -> String {
    let word = |name: &str| kind[name].as_str().unwrap_or_default().to_lowercase();
    let group = word("group");
    let group = group.split('.').next().filter(|group| !group.is_empty());
    let suffix = group.map(|group| format!("-{group}")).unwrap_or_default();
    format!("{}{suffix}-{}.json", word("kind"), word("version"))
}

fn custom(file: &Path, directory: &Path) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let resource: Value = serde_json::from_str(&text)?;
    let spec = &resource["spec"];
    let version = spec["versions"].as_array().and_then(|versions| versions.first()).context("no version")?;
    let mut schema = version["schema"]["openAPIV3Schema"].clone();
    close(&mut schema);
    let kind = json!({
        "kind": spec["names"]["kind"], "group": spec["group"], "version": version["name"],
    });
    fs::write(directory.join(file_name(&kind)), schema.to_string()).context("writing its schema")
}

/// Rejects undescribed fields. The API server would drop them silently.
fn close(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    // An object without described fields, such as a custom resource's metadata, is described elsewhere.
    if object.contains_key("properties") {
        object.entry("additionalProperties").or_insert(json!(false));
    }
    for key in ["properties", "items"] {
        match object.get_mut(key) {
            Some(Value::Object(them)) if key == "properties" => them.values_mut().for_each(close),
            Some(items) => close(items),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_kubeconform_asks_for_them() {
        let name =
            |group: &str, kind: &str| file_name(&json!({ "group": group, "kind": kind, "version": "v1" }));
        assert_eq!(name("", "ConfigMap"), "configmap-v1.json");
        assert_eq!(name("rbac.authorization.k8s.io", "ClusterRole"), "clusterrole-rbac-v1.json");
    }

    #[test]
    fn what_is_not_described_is_a_fault() {
        let mut schema = json!({
            "properties": {
                "metadata": { "type": "object" },
                "spec": { "properties": { "list": { "items": { "properties": { "a": {} } } } } },
            }
        });
        close(&mut schema);
        assert_eq!(schema["properties"]["spec"]["additionalProperties"], false);
        assert_eq!(
            schema["properties"]["spec"]["properties"]["list"]["items"]["additionalProperties"],
            false
        );
        assert!(schema["properties"]["metadata"].get("additionalProperties").is_none());
    }
}
