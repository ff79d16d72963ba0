//! Scans: a kernel program that runs for every object of a kind (an iterator), however many there are.
//!
//! The kernel walks objects for as long as a `read` of the iterator's file lasts. Over sockets it never
//! reschedules during a read, so a kernel without preemption runs nothing else on that CPU. So each program
//! ends the read after half a millisecond (`sysprobe_common::scan`): between two reads the CPU is free.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sysprobe_common::scan::BUFFER;
use tracing::debug;

use super::syscall;
use crate::host;
use crate::probe::{self, Hook};

/// The longest that a read should take. Over the elements of a map, each read first skips all earlier ones in
/// the same hash bucket, at 0.1 us for each that is in no cache. A map has about as many buckets as there are
/// CPUs.
const LONGEST_PART: Duration = Duration::from_millis(5);
/// A pass over the elements of maps ends after this many consecutive reads longer than `LONGEST_PART`,
/// because the next ones would be, too. A single long read may have been disturbed. Other scans skip nothing:
/// if their reads take long, something else took the time, such as interrupts or a virtual machine's host.
const LONG_READS_MAX: u32 = 4;

/// An iterator that can be run again and again.
#[derive(Clone, Debug)]
pub struct Scan {
    program: &'static str,
    /// Links to walk one after the other.
    links: Arc<[OwnedFd]>,
    /// Each read skips the objects that earlier ones have seen.
    skips_seen: bool,
    totals: Arc<Totals>,
}

/// Statistics of a scan's passes so far.
#[derive(Debug, Default)]
struct Totals {
    passes: AtomicU64,
    /// Passes that ended before they had seen everything.
    cut: AtomicU64,
    /// Duration of the last pass.
    took_ns: AtomicU64,
    /// CPU time of the longest read of the last pass. Nothing else ran on that CPU meanwhile.
    longest_ns: AtomicU64,
}

/// The result of a pass over all objects, or as many as there was time for.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// CPU time of the pass.
    pub cpu: Duration,
    pub is_complete: bool,
}

/// For the agent's metrics.
#[derive(Clone, Copy, Debug)]
pub struct ScanStatistics {
    pub program: &'static str,
    pub passes: u64,
    pub cut: u64,
    pub took_ns: u64,
    pub longest_ns: u64,
}

impl Scan {
    pub(super) fn new(row: &probe::Program, links: Vec<OwnedFd>) -> Self {
        let skips_seen = matches!(row.hook, Hook::SocketIterator(_));
        Self { program: row.name, links: links.into(), skips_seen, totals: Arc::default() }
    }

    pub(super) const fn program(&self) -> &'static str {
        self.program
    }

    /// Walks all objects once. Stops early when the time is over or the reads take too long.
    pub fn run(&self, limit: Duration) -> io::Result<Pass> {
        let (begun, cpu) = (Instant::now(), host::thread_time());
        let end = self.go_over_all(begun + limit);
        let is_complete = !matches!(end, Ok(End::Cut));
        let took = begun.elapsed();
        debug!(scan = self.program, ?took, is_complete, "Scanned.");
        self.totals.note(took, is_complete && end.is_ok());
        end.map(|_| Pass { cpu: host::thread_time().saturating_sub(cpu), is_complete })
    }

    fn go_over_all(&self, until: Instant) -> io::Result<End> {
        self.totals.longest_ns.store(0, Relaxed);
        for link in &*self.links {
            let mut file = File::from(syscall::iterator_of(link.as_fd())?);
            if let End::Cut = self.totals.read(&mut file, self.skips_seen, until)? {
                return Ok(End::Cut);
            }
        }
        Ok(End::Complete)
    }

    #[must_use]
    pub fn statistics(&self) -> ScanStatistics {
        ScanStatistics {
            program: self.program,
            passes: self.totals.passes.load(Relaxed),
            cut: self.totals.cut.load(Relaxed),
            took_ns: self.totals.took_ns.load(Relaxed),
            longest_ns: self.totals.longest_ns.load(Relaxed),
        }
    }
}

enum End {
    Complete,
    Cut,
}

impl Totals {
    /// Reads the file to its end, part by part.
    fn read(&self, file: &mut impl Read, skips_seen: bool, until: Instant) -> io::Result<End> {
        let mut long_reads = 0;
        loop {
            let begun = host::thread_time();
            let read = file.read(&mut [0; BUFFER]);
            let took = host::thread_time().saturating_sub(begun);
            self.longest_ns.fetch_max(host::nanoseconds(took), Relaxed);
            match read {
                Ok(0) => return Ok(End::Complete),
                Ok(_) => long_reads = if took > LONGEST_PART { long_reads + 1 } else { 0 },
                // `EAGAIN`: a million objects without output (`MAX_ITER_OBJECTS`). The next read continues
                // behind them.
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
            if (skips_seen && long_reads == LONG_READS_MAX) || Instant::now() >= until {
                return Ok(End::Cut);
            }
        }
    }

    fn note(&self, took: Duration, is_complete: bool) {
        self.passes.fetch_add(1, Relaxed);
        self.cut.fetch_add(u64::from(!is_complete), Relaxed);
        self.took_ns.store(host::nanoseconds(took), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Duration = Duration::from_secs(3600);

    /// An iterator's file that answers as the kernel does, and with one `EAGAIN` whenever the number of reads
    /// that are left is in the list.
    struct Parts {
        reads_left: usize,
        again_at: Vec<usize>,
    }

    impl Read for Parts {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            assert_eq!(into.len(), BUFFER, "the program could not end the part");
            if self.again_at.last() == Some(&self.reads_left) {
                self.again_at.pop();
                return Err(ErrorKind::WouldBlock.into());
            }
            self.reads_left -= 1;
            // The last read finds no object, and the one before too few for a second byte.
            Ok(self.reads_left.min(BUFFER))
        }
    }

    #[test]
    fn a_scan_goes_on_after_eagain_to_the_last_object() {
        let mut parts = Parts { reads_left: 2_500, again_at: vec![500, 1_500] };
        let end = Totals::default().read(&mut parts, false, Instant::now() + LATER).expect("it ends");
        assert!(matches!(end, End::Complete));
        assert_eq!((parts.reads_left, parts.again_at.len()), (0, 0));
    }

    #[test]
    fn a_scan_that_takes_too_long_is_cut() {
        let mut parts = Parts { reads_left: 1_000, again_at: Vec::new() };
        let end = Totals::default().read(&mut parts, false, Instant::now()).expect("it ends");
        assert!(matches!(end, End::Cut));
        assert_eq!(parts.reads_left, 999);
    }

    /// Each of its reads takes more CPU time than one should.
    struct Slow(Parts);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let begun = host::thread_time();
            while host::thread_time().saturating_sub(begun) <= LONGEST_PART {}
            self.0.read(into)
        }
    }

    #[test]
    fn slow_reads_end_a_scan_only_if_each_skips_what_earlier_ones_have_seen() {
        for (skips_seen, reads_left) in [(true, 3), (false, 0)] {
            let mut parts = Slow(Parts { reads_left: 3 + LONG_READS_MAX as usize, again_at: Vec::new() });
            let end = Totals::default().read(&mut parts, skips_seen, Instant::now() + LATER);
            assert_eq!(matches!(end.expect("it ends"), End::Cut), skips_seen);
            assert_eq!(parts.0.reads_left, reads_left);
        }
    }
}
