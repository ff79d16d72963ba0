//! Work on sockets: connections over loopback, both ends of which are ours.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use anyhow::Result;

use super::acts::Act;
use super::cast::Cast;

/// Made, used for a byte, and closed.
pub(crate) struct Connections(TcpListener);

/// Made, and closed with a byte unread.
pub(crate) struct Resets(pub(crate) Connections);

/// Some that stay.
pub(crate) struct Census {
    cpu: u32,
    _open: Vec<(TcpStream, TcpStream)>,
}

impl Connections {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(TcpListener::bind("127.0.0.1:0")?))
    }

    fn make(&self) -> Result<(TcpStream, TcpStream)> {
        let asking = TcpStream::connect(self.0.local_addr()?)?;
        Ok((asking, self.0.accept()?.0))
    }
}

impl Act for Connections {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        let (mut asking, mut asked) = self.make()?;
        asking.write_all(b"q")?;
        asked.read_exact(&mut [0])?;
        Ok(())
    }
}

impl Act for Resets {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        let (mut asking, asked) = self.0.make()?;
        asking.write_all(b"q")?;
        drop(asked);
        Ok(())
    }
}

impl Census {
    pub(crate) fn new(cpu: u32) -> Result<Self> {
        const SOCKETS: usize = 50;
        let connections = Connections::new()?;
        let open = (0..SOCKETS).map(|_| connections.make()).collect::<Result<_>>()?;
        Ok(Self { cpu, _open: open })
    }
}

impl Act for Census {
    fn act(&mut self, cast: &mut Cast) -> Result<()> {
        cast.take_census(self.cpu)
    }
}
