//! Statistics of one kind of operation, the same for all domains: count, latency, bytes and errors.

use crate::hist;

/// The statistics of one operation in a slot, or in one of its shards. They take seven cache lines; an update
/// touches the first one and that of the bucket. All members are added to atomically, because a program may
/// be interrupted half-way and other CPUs add as well.
///
/// The 32-bit counters wrap. The agent reads them more often than that and keeps 64-bit totals.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationStats {
    /// The total duration in nanoseconds of all operations in `latency`.
    pub latency_ns: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Failed operations.
    pub errors: u32,
    /// Always 0.
    pub pad: u32,
    /// Operations by duration, including failed ones.
    pub latency: [u32; hist::BUCKETS],
}

const _: () = assert!(size_of::<OperationStats>() == 448 && align_of::<OperationStats>() == 8);

impl OperationStats {
    pub const ZERO: Self = Self { latency_ns: 0, bytes: 0, errors: 0, pad: 0, latency: [0; hist::BUCKETS] };
}
