//! The rig's own network: loopback, and a bridge with the node's address. It has no route to the outside, so
//! its servers cannot be reached from the machine and occupy no ports there.

use anyhow::Result;

use crate::cmd;

/// The address at which pods find the API server: the first of the service range. There is no service proxy;
/// the node has this address itself.
pub(super) const SERVICE_ADDRESS: &str = "10.96.0.1";

pub(super) fn up(address: &str) -> Result<()> {
    let address = format!("{address}/24");
    let service = format!("{SERVICE_ADDRESS}/32");
    let steps: [&[&str]; 6] = [
        &["link", "set", "lo", "up"],
        &["addr", "add", &service, "dev", "lo"],
        &["link", "add", "node0", "type", "bridge"],
        &["addr", "add", &address, "dev", "node0"],
        &["link", "set", "node0", "up"],
        // The kubelet looks for a default route to find the node's own address.
        &["route", "add", "default", "dev", "node0"],
    ];
    steps.iter().try_for_each(|step| cmd::run(cmd::tool("ip").args(*step)))
}
