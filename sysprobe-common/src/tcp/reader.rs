//! The last reader of a busy connection: see the program's `readers.rs`.

/// The number of elements in the table of readers. A power of two.
pub const READERS: u32 = 4096;
/// The length of a period, as a power of two of jiffies: from 64 ms (1000 Hz) to 640 ms (100 Hz).
const PERIOD_BITS: u32 = 6;
/// After so many reads in one period, a connection is busy.
const BUSY_READS: u32 = 8;
/// For so many periods after its last busy one, a connection keeps its element.
const KEPT_PERIODS: i32 = 64;

const _: () = assert!(READERS.is_power_of_two());

/// The last read of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The socket's key. Sockets use the addresses of earlier ones again.
    socket: u64,
    /// The address of the reading task's `css_set`, which stands for its cgroups in this period. An address
    /// that is freed and used again in the same period is taken for the earlier cgroup, and so is a kernel
    /// thread for a process in the root cgroup.
    css_set: u64,
    /// In the upper half, the kernel's hash of the connection's addresses and ports; in the lower half, the
    /// sequence number up to which was read. A single word, so that they belong together.
    position: u64,
    period: u32,
    /// The number of reads in this period, up to `BUSY_READS`.
    reads: u32,
}

const _: () = assert!(size_of::<Reader>() == 32);

impl Reader {
    /// An element without a reader.
    pub const NONE: Self = Self { socket: 0, css_set: 0, position: 0, period: 0, reads: 0 };

    /// A read of a connection up to a sequence number, the first one in its period.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "it wraps after years")]
    pub const fn new(socket: u64, css_set: u64, (connection, up_to): (u32, u32), jiffies: u64) -> Self {
        let position = (connection as u64) << 32 | up_to as u64;
        Self { socket, css_set, position, period: (jiffies >> PERIOD_BITS) as u32, reads: 1 }
    }

    /// The number of the element for a socket.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the highest bits, of which there are few")]
    pub const fn place(socket: u64) -> u32 {
        (socket >> (u64::BITS - READERS.ilog2())) as u32
    }

    #[inline]
    #[must_use]
    pub const fn is_of_socket(&self, socket: u64) -> bool {
        self.socket == socket
    }

    #[inline]
    #[must_use]
    const fn is_of_same_connection(&self, other: &Self) -> bool {
        self.socket == other.socket && (self.position ^ other.position) >> 32 == 0
    }

    /// Whether `next` is by the same reader, from the same connection, and in the same period.
    #[inline]
    #[must_use]
    pub const fn repeats_in(&self, next: &Self) -> bool {
        self.css_set == next.css_set && self.period == next.period && self.is_of_same_connection(next)
    }

    /// The same read, with this many reads in its period.
    #[inline]
    #[must_use]
    pub const fn after(self, last: &Self) -> Self {
        let reads = if last.is_busy() { last.reads } else { last.reads + 1 };
        Self { reads, ..self }
    }

    /// Whether the connection is busy, and its position noted only here.
    #[inline]
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.reads >= BUSY_READS
    }

    /// The sequence number up to which was read, if the record of the connection that `next` is from may lack
    /// it.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn unrecorded(&self, next: &Self) -> Option<u32> {
        if self.is_busy() && self.is_of_same_connection(next) { Some(self.position as u32) } else { None }
    }

    /// Whether the element may be given to `next`. A socket with the same address is the only one there: the
    /// connection of this element is over.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_wrap, reason = "another CPU's period may be later")]
    pub const fn gives_way_to(&self, next: &Self) -> bool {
        let age = next.period.wrapping_sub(self.period) as i32;
        !self.is_busy() || self.is_of_socket(next.socket) || age >= KEPT_PERIODS
    }
}

#[cfg(test)]
mod tests;
