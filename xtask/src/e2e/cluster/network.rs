//! The rig's own network: loopback, and a bridge that bears the node's address. There is no way out of it, so
//! no server in it can be reached, and no port is taken.

use anyhow::Result;

use crate::cmd;

/// Under which pods find the API server: the first of the services' addresses. No proxy of services leads
/// there, it is one of the node's own.
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
