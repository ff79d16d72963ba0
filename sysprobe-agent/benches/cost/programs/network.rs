//! Work on sockets over loopback, both ends of which are ours.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

use anyhow::Result;

use super::acts::Act;
use super::cast::Cast;

/// Made, used for a byte, and closed.
pub(crate) struct Connections(TcpListener);

/// Made, and closed with a byte unread.
pub(crate) struct Resets(pub(crate) Connections);

/// Some that stay.
pub(crate) struct SocketScan {
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

impl SocketScan {
    pub(crate) fn new(cpu: u32) -> Result<Self> {
        const SOCKETS: usize = 50;
        let connections = Connections::new()?;
        let open = (0..SOCKETS).map(|_| connections.make()).collect::<Result<_>>()?;
        Ok(Self { cpu, _open: open })
    }
}

impl Act for SocketScan {
    fn act(&mut self, cast: &mut Cast) -> Result<()> {
        cast.scan_sockets(self.cpu)
    }
}

/// A message there and back.
pub(crate) struct Echo(TcpStream, TcpStream);

impl Echo {
    const BYTES: usize = 100;

    pub(crate) fn new() -> Result<Self> {
        let (asking, asked) = Connections::new()?.make()?;
        for stream in [&asking, &asked] {
            stream.set_nodelay(true)?;
        }
        Ok(Self(asking, asked))
    }

    pub(crate) fn call(&mut self) -> Result<()> {
        let mut message = [0; Self::BYTES];
        for (from, to) in [(0, 1), (1, 0)] {
            self.end(from).write_all(&message)?;
            self.end(to).read_exact(&mut message)?;
        }
        Ok(())
    }

    const fn end(&mut self, which: usize) -> &mut TcpStream {
        if which == 0 { &mut self.0 } else { &mut self.1 }
    }
}

impl Act for Echo {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.call()
    }
}

/// Segments that are all there before any is read.
pub(crate) struct Burst(Echo);

impl Burst {
    const SEGMENTS: usize = 20;
    const BYTES: usize = 1000;

    pub(crate) fn new() -> Result<Self> {
        Echo::new().map(Self)
    }

    pub(crate) fn call(&mut self) -> Result<()> {
        let mut segments = vec![0; Self::SEGMENTS * Self::BYTES];
        for segment in segments.chunks(Self::BYTES) {
            self.0.end(0).write_all(segment)?;
        }
        self.0.end(1).read_exact(&mut segments)?;
        Ok(())
    }
}

/// One datagram of each version, sent and received.
pub(crate) struct Datagrams([Pair; 2]);

struct Pair {
    from: UdpSocket,
    to: UdpSocket,
}

impl Pair {
    fn new(address: &str) -> Result<Self> {
        let (from, to) = (UdpSocket::bind((address, 0))?, UdpSocket::bind((address, 0))?);
        from.connect(to.local_addr()?)?;
        Ok(Self { from, to })
    }

    fn pass(&self) -> Result<()> {
        let mut message = [0; 100];
        self.from.send(&message)?;
        self.to.recv(&mut message)?;
        Ok(())
    }
}

impl Datagrams {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self([Pair::new("127.0.0.1")?, Pair::new("::1")?]))
    }
}

impl Act for Datagrams {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.0.iter().try_for_each(Pair::pass)
    }
}

/// A datagram of 100 bytes, sent and received.
pub(crate) struct Datagram(Pair);

impl Datagram {
    pub(crate) fn new() -> Result<Self> {
        Pair::new("127.0.0.1").map(Self)
    }

    pub(crate) fn pass(&self) -> Result<()> {
        self.0.pass()
    }
}

/// A datagram to a socket that has no room left.
pub(crate) struct Flood(Pair);

impl Flood {
    pub(crate) fn new() -> Result<Self> {
        const ENOUGH: u32 = 2_000;
        let pair = Pair::new("127.0.0.1")?;
        for _ in 0..ENOUGH {
            pair.from.send(&[0; 1000])?;
        }
        Ok(Self(pair))
    }
}

impl Act for Flood {
    fn act(&mut self, _cast: &mut Cast) -> Result<()> {
        self.0.from.send(&[0; 1000])?;
        Ok(())
    }
}
