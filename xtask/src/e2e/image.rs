//! The only image of the rig, made here: a static busybox in an archive of the OCI's layout. It serves the workloads,
//! and as what keeps a pod's namespaces open.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::parts::Parts;
use super::places;
use crate::cmd;

pub(super) const NAME: &str = "sysprobe.test/busybox:1";

/// What the workloads call.
const LINKS: [&str; 4] = ["cat", "sh", "sleep", "usleep"];

/// Makes the archive; returns it.
pub(super) fn make(parts: &Parts) -> Result<PathBuf> {
    let directory = places::state().join("image");
    let blobs = directory.join("layout/blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let layer = directory.join("layer.tar");
    let files = root(parts, &directory.join("root"))?;
    archive(&files, &layer)?;

    let layer = blob(&blobs, &fs::read(layer)?, "application/vnd.oci.image.layer.v1.tar")?;
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "Entrypoint": ["sleep", "1000000"], "Env": ["PATH=/bin"] },
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
    });
    let config = blob(&blobs, config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer] });
    let mut manifest = blob(&blobs, manifest.to_string().as_bytes(), kind)?;
    manifest["annotations"] = json!({ "io.containerd.image.name": NAME });

    let layout = directory.join("layout");
    fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(layout.join("index.json"), index.to_string())?;
    let image = directory.join("image.tar");
    archive(&layout, &image)?;
    Ok(image)
}

/// A root file system with busybox and its names.
pub(super) fn root(parts: &Parts, directory: &Path) -> Result<PathBuf> {
    let bin = directory.join("bin");
    fs::create_dir_all(&bin)?;
    let busybox = parts.busybox();
    fs::copy(&busybox, bin.join("busybox")).with_context(|| format!("copying {}", busybox.display()))?;
    for name in LINKS {
        symlink("busybox", bin.join(name))?;
    }
    for mount_point in ["dev", "proc", "sys", "tmp"] {
        fs::create_dir_all(directory.join(mount_point))?;
    }
    Ok(directory.to_owned())
}

/// Stores `content` under its digest and describes it.
fn blob(blobs: &Path, content: &[u8], kind: &str) -> Result<Value> {
    let new = blobs.join("new");
    fs::write(&new, content)?;
    let printed = cmd::capture(cmd::tool("sha256sum").arg(&new)).context("`sha256sum` failed")?;
    let digest = printed.split(' ').next().unwrap_or_default().to_owned();
    fs::rename(new, blobs.join(&digest))?;
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": content.len() }))
}

fn archive(directory: &Path, file: &Path) -> Result<()> {
    let mut tar = cmd::tool("tar");
    tar.args(["--create", "--owner=0", "--group=0", "--file"]).arg(file).arg("--directory").arg(directory);
    cmd::run(tar.arg("."))
}

/// As images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
