//! Builds images as archives in the OCI image layout
//! (<https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md>), without a daemon. The same
//! files make the same bytes: names are sorted, owners and times are fixed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::build::Arch;
use crate::cmd;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The input for an image of one layer.
pub(crate) struct Image<'a> {
    /// The name, with the tag.
    pub(crate) name: &'a str,
    /// The directory with the image's files.
    pub(crate) root: &'a Path,
    /// The image configuration: how it runs.
    pub(crate) config: Value,
    /// Title, version, licence and commit, under the OCI's annotation keys.
    pub(crate) labels: Value,
    /// The time of the image and of each file, in seconds since 1970.
    pub(crate) time: u64,
}

/// Makes an archive for this machine in a directory, which is emptied first; returns it and the image's
/// digest.
pub(crate) fn archive(image: &Image, directory: &Path) -> Result<(PathBuf, String)> {
    archive_for(Arch::HOST, image, directory)
}

/// Like [`archive`], for programs of one architecture.
pub(crate) fn archive_for(arch: Arch, image: &Image, directory: &Path) -> Result<(PathBuf, String)> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("emptying {}", directory.display()))?;
    }
    let layout = directory.join("layout");
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let manifest = manifest(arch, image, directory, &blobs)?;
    let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
    fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(layout.join("index.json"), index.to_string())?;
    let file = directory.join("image.tar");
    tar(&layout, &file, image.time)?;
    Ok((file, digest))
}

fn manifest(arch: Arch, image: &Image, directory: &Path, blobs: &Path) -> Result<Value> {
    let tarball = directory.join("layer.tar");
    tar(image.root, &tarball, image.time)?;
    let diff_id = format!("sha256:{}", digest(&tarball)?);
    // `gzip` would store the file's name and time otherwise, and the bytes would differ.
    cmd::run(cmd::tool("gzip").args(["--no-name", "--best"]).arg(&tarball))?;
    let layer = blob(blobs, &fs::read(tarball.with_extension("tar.gz"))?, LAYER)?;
    let mut config = image.config.clone();
    config["Labels"] = image.labels.clone();
    let config = json!({
        "created": created(image.time)?,
        "architecture": arch.name(),
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
    });
    let config = blob(blobs, config.to_string().as_bytes(), CONFIG)?;
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
    let mut manifest = blob(blobs, manifest.to_string().as_bytes(), MANIFEST)?;
    // containerd imports the image under the first name; the specification defines the second.
    manifest["annotations"] = json!({
        "io.containerd.image.name": image.name,
        "org.opencontainers.image.ref.name": image.name,
    });
    Ok(manifest)
}

/// Stores `content` under its digest and describes it.
fn blob(blobs: &Path, content: &[u8], kind: &str) -> Result<Value> {
    let new = blobs.join("new");
    fs::write(&new, content)?;
    let digest = digest(&new)?;
    fs::rename(new, blobs.join(&digest))?;
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": content.len() }))
}

fn digest(file: &Path) -> Result<String> {
    let printed = cmd::capture(cmd::tool("sha256sum").arg(file)).context("`sha256sum` failed")?;
    Ok(printed.split(' ').next().unwrap_or_default().to_owned())
}

fn tar(directory: &Path, file: &Path, time: u64) -> Result<()> {
    let mut tar = cmd::tool("tar");
    tar.args(["--create", "--sort=name", "--format=gnu", "--numeric-owner", "--owner=0", "--group=0"]);
    tar.args(["--mode=u+rwX,go=rX", &format!("--mtime=@{time}")]);
    tar.arg("--file").arg(file).arg("--directory").arg(directory);
    cmd::run(tar.arg("."))
}

fn created(time: u64) -> Result<String> {
    let at = format!("--date=@{time}");
    let date = cmd::capture(cmd::tool("date").args(["--utc", &at, "+%Y-%m-%dT%H:%M:%SZ"]));
    Ok(date.context("`date` failed")?.trim().to_owned())
}
