//! Scans: a kernel program that runs for every object of a kind (an iterator), however many there are.
//!
//! The kernel walks objects for as long as a `read` of the iterator's file lasts. Over sockets it never
//! reschedules during a read, so a kernel without preemption runs nothing else on that CPU. So each program
//! writes one byte for each object, and the buffer's size bounds the objects per read: between two reads the
//! CPU is free.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tracing::debug;

use super::syscall;
use crate::host;

/// Target duration of a read. It is a tenth of what a task that becomes runnable meanwhile may wait, because
/// reads that have to skip objects already seen take longer.
const PART: Duration = Duration::from_micros(500);
/// The longest that a read should take. Over sockets, each read first skips all earlier objects in the same
/// hash bucket, at 0.1 us for each that is in no cache. A map has about as many buckets as there are CPUs.
const LONGEST_PART: Duration = Duration::from_millis(5);
/// A pass ends after this many consecutive reads longer than `LONGEST_PART`, because the next ones would be,
/// too. A single long read may have been disturbed.
const TOO_LONG: u32 = 4;
/// Objects in a read before the cost of one is known: 0.5 ms at 2 us each, the cost of a socket that is not
/// in the CPU's cache.
const FIRST_PART: usize = 256;
/// Limits of the objects in one read. Fewer are not worth a system call. More would take too long if objects
/// that were in the CPU's cache have left it: a socket then takes 2 us or more instead of 0.1.
const PARTS: std::ops::RangeInclusive<usize> = 64..=1024;

/// An iterator that can be run again and again.
#[derive(Clone, Debug)]
pub struct Scan {
    program: &'static str,
    /// Links to walk one after the other.
    links: Arc<[OwnedFd]>,
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
    /// The lowest recent cost of an object; 0 before it is known.
    object_ns: AtomicU64,
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
    pub(super) fn new(program: &'static str, links: Vec<OwnedFd>) -> Self {
        Self { program, links: links.into(), totals: Arc::default() }
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
            if let End::Cut = self.totals.read(&mut file, until)? {
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
    fn read(&self, file: &mut impl Read, until: Instant) -> io::Result<End> {
        let mut output = vec![0; *PARTS.end()];
        let mut too_long = 0;
        loop {
            let part = &mut output[..self.part()];
            let begun = host::thread_time();
            let read = file.read(part);
            let took = host::thread_time().saturating_sub(begun);
            self.longest_ns.fetch_max(host::nanoseconds(took), Relaxed);
            match read {
                Ok(0) => return Ok(End::Complete),
                Ok(objects) => {
                    self.learn(took, objects);
                    too_long = if took > LONGEST_PART { too_long + 1 } else { 0 };
                }
                // `EAGAIN`: a million objects without output (`MAX_ITER_OBJECTS`). The next read continues
                // behind them.
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
            if too_long == TOO_LONG || Instant::now() >= until {
                return Ok(End::Cut);
            }
        }
    }

    /// The number of objects that should fit into the target duration.
    fn part(&self) -> usize {
        let Some(fitting) = host::nanoseconds(PART).checked_div(self.object_ns.load(Relaxed)) else {
            return FIRST_PART;
        };
        usize::try_from(fitting).unwrap_or(usize::MAX).clamp(*PARTS.start(), *PARTS.end())
    }

    /// The cheapest read shows the cost of an object. Others were interrupted or had to skip objects already
    /// seen, which a smaller read would not avoid. The known cost rises slowly, because objects may become
    /// more expensive.
    fn learn(&self, took: Duration, objects: usize) {
        // With few objects, most of the time is the system call.
        if objects < *PARTS.start() {
            return;
        }
        let cost = (host::nanoseconds(took) / objects as u64).max(1);
        let known = self.object_ns.load(Relaxed);
        let risen = known + known / 512 + 1;
        self.object_ns.store(if known == 0 { cost } else { cost.min(risen) }, Relaxed);
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

    /// An iterator's file that answers as the kernel does: with `left` objects, and with one `EAGAIN`
    /// whenever that number is in the list.
    struct Objects {
        left: usize,
        again_at: Vec<usize>,
        largest: usize,
    }

    impl Read for Objects {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.again_at.last() == Some(&self.left) {
                self.again_at.pop();
                return Err(ErrorKind::WouldBlock.into());
            }
            let stop = self.again_at.last().map_or(self.left, |at| self.left - at);
            let objects = self.left.min(into.len()).min(stop);
            self.left -= objects;
            self.largest = self.largest.max(objects);
            Ok(objects)
        }
    }

    #[test]
    fn a_scan_goes_on_after_eagain_to_the_last_object() {
        let mut objects = Objects { left: 2_500_000, again_at: vec![500_000, 1_500_000], largest: 0 };
        let end = Totals::default().read(&mut objects, Instant::now() + LATER).expect("it ends");
        assert!(matches!(end, End::Complete));
        assert_eq!((objects.left, objects.again_at.len()), (0, 0));
    }

    #[test]
    fn a_scan_that_takes_too_long_is_cut() {
        let mut objects = Objects { left: 1_000_000, again_at: Vec::new(), largest: 0 };
        let end = Totals::default().read(&mut objects, Instant::now()).expect("it ends");
        assert!(matches!(end, End::Cut));
        assert_eq!(objects.left, 1_000_000 - FIRST_PART);
    }

    #[test]
    fn a_part_has_as_many_objects_as_fit_into_its_time() {
        let totals = Totals::default();
        assert_eq!(totals.part(), FIRST_PART);
        totals.learn(Duration::from_micros(800), 1000);
        assert_eq!(totals.part(), 625);
        totals.learn(Duration::from_micros(20), 1000);
        assert_eq!(totals.part(), *PARTS.end());
    }

    #[test]
    fn a_part_does_not_shrink_for_a_read_that_had_to_find_its_way_back() {
        let totals = Totals::default();
        totals.learn(Duration::from_micros(800), 1000);
        totals.learn(Duration::from_millis(20), 1000);
        assert!(totals.part() > 600, "{}", totals.part());
    }

    #[test]
    fn a_part_is_short_even_if_its_objects_have_left_the_cache() {
        const COLD: Duration = Duration::from_micros(4);
        let totals = Totals::default();
        totals.learn(Duration::from_micros(100), 1000);
        let part = u32::try_from(totals.part()).expect("small");
        assert!(COLD * part < LONGEST_PART, "{part} objects");
    }

    #[test]
    fn a_part_shrinks_when_all_objects_have_become_dearer() {
        let totals = Totals::default();
        totals.learn(Duration::from_micros(200), 1000);
        (0..5000).for_each(|_| totals.learn(Duration::from_millis(2), 1000));
        assert_eq!(totals.part(), 250);
    }
}
