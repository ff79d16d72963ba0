//! Modules that a kernel needs before it can see the host's files.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::cmd;

/// Transport, file system and overlay, then modules that tests mount and connect. Some are built into some
/// kernels.
const WANTED: [&str; 12] = [
    "virtio_pci",
    "virtiofs",
    "overlay",
    "loop",
    "ext4",
    "xfs",
    "btrfs",
    "dm_mod",
    "null_blk",
    "veth",
    "sch_tbf",
    "sch_netem",
];

/// A module with its content, ready for the kernel.
pub(super) struct Module {
    pub(super) name: String,
    pub(super) image: Vec<u8>,
}

/// The modules of the tree at `directory` (`lib/modules/VERSION`), in load order.
pub(super) fn boot(directory: &Path) -> Result<Vec<Module>> {
    let file = directory.join("modules.dep");
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    order(&text, &WANTED).into_iter().map(|path| load(&directory.join(path))).collect()
}

/// Module paths in load order, each once. A module that `modules.dep` does not list is built in.
fn order<'a>(modules_dep: &'a str, wanted: &[&str]) -> Vec<&'a str> {
    let rows: Vec<(&str, &str)> = modules_dep.lines().filter_map(|line| line.split_once(':')).collect();
    let mut found = Vec::new();
    for name in wanted {
        let Some((path, needs)) = rows.iter().find(|(path, _)| stem(path) == name.replace('-', "_")) else {
            continue;
        };
        // depmod lists what a module needs with the deepest dependency last.
        let chain = needs.split_whitespace().rev().chain([*path]);
        for path in chain {
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

/// `virtio_pci` of `kernel/drivers/virtio/virtio-pci.ko.xz`.
fn stem(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

/// Reads and decompresses a module: not every kernel can decompress it.
fn load(path: &Path) -> Result<Module> {
    let name = format!("{}.ko", stem(&path.to_string_lossy()));
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => {
            let image = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            return Ok(Module { name, image });
        }
    };
    let output = cmd::tool(program).arg("-dc").arg(path).stderr(Stdio::null()).output();
    let output = output.with_context(|| format!("`{program}` cannot be started: install it"))?;
    if !output.status.success() {
        bail!("`{program}` cannot read {}", path.display());
    }
    Ok(Module { name, image: output.stdout })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_once_and_what_is_built_in_not_at_all() {
        let table = "\
kernel/fs/fuse/fuse.ko.xz:
kernel/fs/fuse/virtiofs.ko.xz: kernel/fs/fuse/fuse.ko.xz kernel/drivers/virtio/virtio.ko.xz
kernel/drivers/virtio/virtio-pci.ko.xz: kernel/drivers/virtio/virtio_ring.ko.xz \
kernel/drivers/virtio/virtio.ko.xz
kernel/net/sched/sch_netem.ko.xz:
";
        assert_eq!(
            order(table, &["virtio_pci", "virtiofs", "overlay"]),
            [
                "kernel/drivers/virtio/virtio.ko.xz",
                "kernel/drivers/virtio/virtio_ring.ko.xz",
                "kernel/drivers/virtio/virtio-pci.ko.xz",
                "kernel/fs/fuse/fuse.ko.xz",
                "kernel/fs/fuse/virtiofs.ko.xz",
            ]
        );
    }
}
