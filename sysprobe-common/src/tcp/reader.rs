//! The last reader of a connection that is read often: see the program's `readers.rs`.

/// The number of elements in the table of readers. A power of two.
pub const READERS: u32 = 4096;
/// The length of a period, as a power of two of jiffies: from 64 ms (1000 Hz) to 640 ms (100 Hz).
const PERIOD_BITS: u32 = 6;
/// After so many reads in one period, a connection counts as read often.
const OFTEN: u32 = 8;
/// For so many periods, no other connection takes the place of one that was read often.
const KEPT: u32 = 64;

const _: () = assert!(READERS.is_power_of_two());

/// The last read of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The socket's key. Sockets use the addresses of earlier ones again.
    socket: u64,
    /// The address of the reading task's `css_set`, which stands for its cgroups in this period.
    css_set: u64,
    /// In the upper half, the kernel's hash of the connection's addresses and ports; in the lower half, the
    /// sequence number up to which was read. A single word, so that they always belong together.
    position: u64,
    pub period: u32,
    /// The number of reads in this period, up to `OFTEN`.
    reads: u32,
}

const _: () = assert!(size_of::<Reader>() == 32);

/// The number of the period.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "it wraps after years")]
pub const fn period(jiffies: u64) -> u32 {
    (jiffies >> PERIOD_BITS) as u32
}

impl Reader {
    /// A read of a connection up to a sequence number, the first one in this period.
    #[inline]
    #[must_use]
    pub const fn new(socket: u64, css_set: u64, (connection, up_to): (u32, u32), period: u32) -> Self {
        let position = (connection as u64) << 32 | up_to as u64;
        Self { socket, css_set, position, period, reads: 1 }
    }

    /// The number of its element in the table.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the highest bits, of which there are few")]
    pub const fn place(&self) -> u32 {
        (self.socket >> (u64::BITS - READERS.ilog2())) as u32
    }

    /// Whether `next` is by the same reader, from the same connection, and in the same period.
    #[inline]
    #[must_use]
    pub const fn is_followed_by(&self, next: &Self) -> bool {
        self.css_set == next.css_set && self.period == next.period && self.is_of_the_same_connection(next)
    }

    #[inline]
    #[must_use]
    pub const fn is_of_the_same_connection(&self, other: &Self) -> bool {
        self.socket ^ other.socket | (self.position ^ other.position) >> 32 == 0
    }

    #[inline]
    pub const fn set_position(&mut self, of: &Self) {
        self.position = of.position;
    }

    /// The sequence number up to which was read.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn position(&self) -> u32 {
        self.position as u32
    }

    /// Counts one more read, and returns whether the connection was read often before.
    #[inline]
    pub const fn counts_one_more(&mut self) -> bool {
        let is_often = self.reads >= OFTEN;
        if !is_often {
            self.reads += 1;
        }
        is_often
    }

    /// Whether the connection keeps its place, because the position may be noted only here.
    #[inline]
    #[must_use]
    pub const fn is_busy(&self, now: u32) -> bool {
        self.reads >= OFTEN && now.wrapping_sub(self.period) < KEPT
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, OFTEN, Reader};

    const FIRST: Reader = Reader::new(1, 2, (3, 4), 5);

    #[test]
    fn only_the_position_of_the_next_read_may_differ() {
        assert!(FIRST.is_followed_by(&Reader::new(1, 2, (3, 400), 5)));
        for other in [(9, 2, 3, 5), (1, 9, 3, 5), (1, 2, 9, 5), (1, 2, 3, 9)] {
            let (socket, css_set, connection, period) = other;
            let next = Reader::new(socket, css_set, (connection, 4), period);
            assert!(!FIRST.is_followed_by(&next), "{other:?}");
            let is_same = socket == FIRST.socket && connection == 3;
            assert_eq!(FIRST.is_of_the_same_connection(&next), is_same, "{other:?}");
        }
    }

    #[test]
    fn a_connection_that_is_read_often_keeps_its_place_for_some_periods() {
        let mut reader = FIRST;
        for _ in 1..OFTEN {
            assert!(!reader.is_busy(5));
            assert!(!reader.counts_one_more());
        }
        assert!(reader.counts_one_more());
        reader.set_position(&Reader::new(1, 2, (3, 400), 5));
        assert_eq!(reader.position(), 400);
        assert!(reader.is_busy(5) && reader.is_busy(5 + KEPT - 1));
        assert!(!reader.is_busy(5 + KEPT) && !reader.is_busy(4));
    }
}
