//! Certificates for one run: an authority, a certificate for each server and client, and the clients'
//! kubeconfig files.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::places;
use crate::cmd;

/// Longer than any run.
const DAYS: &str = "30";

/// A certificate to create.
struct Certificate {
    name: &'static str,
    subject: String,
    /// Names and addresses of a server; empty for a client.
    places: String,
}

/// The node that the kubelet's certificates are for.
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) address: &'static str,
}

/// Creates everything in [`places::pki`]. `api` is the API server's URL, `service` its address for pods, and
/// `parts` are its clients.
pub(super) fn make(node: &Node, api: &str, service: &str, parts: [&'static str; 2]) -> Result<()> {
    fs::create_dir_all(places::pki())?;
    authority()?;
    let Node { name: node, address } = node;
    let names = format!("DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:{service}");
    let mut certificates = vec![
        Certificate::server("apiserver", "/CN=kube-apiserver", &names),
        Certificate::server(
            "kubelet-serving",
            &format!("/O=system:nodes/CN=system:node:{node}"),
            &format!("DNS:{node},IP:127.0.0.1,IP:{address}"),
        ),
        Certificate::client("admin", "/O=system:masters/CN=admin"),
        Certificate::client("kubelet", &format!("/O=system:nodes/CN=system:node:{node}")),
    ];
    certificates.extend(parts.map(|part| Certificate::client(part, &format!("/CN=system:{part}"))));
    for certificate in &certificates {
        sign(certificate)?;
    }
    key("service-accounts")?;
    let public = file("service-accounts", "pub");
    run(openssl()
        .args(["ec", "-pubout", "-in"])
        .arg(file("service-accounts", "key"))
        .arg("-out")
        .arg(public))?;
    for name in ["admin", "kubelet"].into_iter().chain(parts) {
        let user = json!({ "client-certificate": file(name, "crt"), "client-key": file(name, "key") });
        kubeconfig(name, api, &user)?;
    }
    Ok(())
}

/// Writes the kubeconfig of one user.
pub(super) fn kubeconfig(name: &str, server: &str, user: &serde_json::Value) -> Result<PathBuf> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "rig", "cluster": { "server": server, "certificate-authority": authority_file() }
        }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": "rig", "context": { "cluster": "rig", "user": name } }],
        "current-context": "rig",
    });
    let path = file(name, "kubeconfig");
    fs::write(&path, config.to_string()).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

pub(super) fn file(name: &str, kind: &str) -> PathBuf {
    places::pki().join(format!("{name}.{kind}"))
}

pub(super) fn authority_file() -> PathBuf {
    file("ca", "crt")
}

fn authority() -> Result<()> {
    key("ca")?;
    let mut request = openssl();
    request.args(["req", "-x509", "-new", "-days", DAYS, "-subj", "/CN=sysprobe-e2e", "-key"]);
    request.arg(file("ca", "key")).arg("-out").arg(authority_file());
    request.args(["-addext", "keyUsage=critical,keyCertSign,cRLSign"]);
    run(&mut request)
}

fn sign(certificate: &Certificate) -> Result<()> {
    let name = certificate.name;
    key(name)?;
    let extensions = file(name, "ext");
    fs::write(&extensions, certificate.extensions())?;
    let request = file(name, "csr");
    run(openssl()
        .args(["req", "-new", "-subj", &certificate.subject, "-key"])
        .arg(file(name, "key"))
        .arg("-out")
        .arg(&request))?;
    let mut sign = openssl();
    sign.args(["x509", "-req", "-days", DAYS, "-CAcreateserial", "-in"]).arg(request);
    sign.arg("-CA").arg(authority_file()).arg("-CAkey").arg(file("ca", "key"));
    run(sign.arg("-extfile").arg(extensions).arg("-out").arg(file(name, "crt")))
}

fn key(name: &str) -> Result<()> {
    run(openssl()
        .args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"])
        .arg(file(name, "key")))
}

fn openssl() -> Command {
    cmd::tool("openssl")
}

/// openssl prints to stderr even on success, so its output is shown only when it fails.
fn run(command: &mut Command) -> Result<()> {
    let output = command.stdout(Stdio::null()).output().context("starting openssl")?;
    if !output.status.success() {
        bail!("openssl failed: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(())
}

// === impl Certificate ===

impl Certificate {
    fn server(name: &'static str, subject: &str, places: &str) -> Self {
        Self { name, subject: subject.to_owned(), places: places.to_owned() }
    }

    fn client(name: &'static str, subject: &str) -> Self {
        Self::server(name, subject, "")
    }

    fn extensions(&self) -> String {
        if self.places.is_empty() {
            return "keyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n".to_owned();
        }
        let places = &self.places;
        format!("keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\nsubjectAltName={places}\n")
    }
}
