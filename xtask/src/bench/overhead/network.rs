//! Networks for a load, separate from the machine's: a namespace with a loopback device, or two namespaces
//! joined by a veth pair.
//!
//! A namespace has no name. Only a descriptor holds it, so the kernel removes it with its devices when this
//! program ends for any reason.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::{io, thread};

use anyhow::{Context, Result, anyhow};

use crate::cmd;

/// The server's and the client's address, from a range reserved for documentation (RFC 5737).
const SERVER: &str = "192.0.2.1";
const CLIENT: &str = "192.0.2.2";

/// A network namespace.
#[derive(Debug)]
pub(super) struct Namespace(File);

/// The namespaces of a server and its client.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) server: Namespace,
    /// `None` means the server's namespace.
    client: Option<Namespace>,
    /// The server's address.
    pub(super) address: &'static str,
}

impl Network {
    pub(super) fn loopback() -> Result<Self> {
        let server = Namespace::make()?;
        server.ip(&["link", "set", "lo", "up"])?;
        Ok(Self { server, client: None, address: "127.0.0.1" })
    }

    pub(super) fn veth() -> Result<Self> {
        let (server, client) = (Namespace::make()?, Namespace::make()?);
        let other = client.path();
        server.ip(&["link", "add", "pod", "type", "veth", "peer", "name", "pod", "netns", &other])?;
        for (namespace, address) in [(&server, SERVER), (&client, CLIENT)] {
            namespace.ip(&["address", "add", &format!("{address}/30"), "dev", "pod"])?;
            namespace.ip(&["link", "set", "pod", "up"])?;
        }
        Ok(Self { server, client: Some(client), address: SERVER })
    }

    pub(super) fn client(&self) -> &Namespace {
        self.client.as_ref().unwrap_or(&self.server)
    }
}

impl Namespace {
    /// Creates it on a separate thread, because this program must stay in its own namespace.
    fn make() -> Result<Self> {
        let make = || {
            // SAFETY: changes the network of this thread only, touches no memory.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open("/proc/thread-self/ns/net")
        };
        let made = thread::spawn(make).join().map_err(|_| anyhow!("the thread for a network panicked"))?;
        made.map(Self).context("making a network namespace")
    }

    pub(super) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// The path at which other programs find it while this one runs.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor())
    }

    fn ip(&self, words: &[&str]) -> Result<()> {
        let mut command = cmd::tool("nsenter");
        command.arg(format!("--net={}", self.path())).arg("ip").args(words);
        cmd::output(&mut command).map(drop)
    }
}

/// Whether the machine has the programs that networks need.
pub(super) fn is_possible() -> bool {
    Path::new("/proc/self/ns/net").exists()
        && ["ip", "nsenter"].iter().all(|program| !crate::paths::find_programs(program).is_empty())
}
