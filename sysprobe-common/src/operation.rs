//! What is kept of one kind of operation, whatever the domain: how many, how long, how many bytes, how many
//! errors.

use crate::hist;

/// What a slot holds of one operation, or one of its shards. Seven cache lines; a booking touches the first
/// and the one of its bucket. All is added to atomically: a program may be interrupted in the middle of it,
/// and other CPUs add as well.
///
/// The 32-bit numbers wrap. The agent reads them more often than they can and keeps 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationStats {
    /// Nanoseconds that all took: the sum over all of `latency`.
    pub latency_ns: u64,
    /// What was moved.
    pub bytes: u64,
    /// How many failed.
    pub errors: u32,
    /// Always 0.
    pub pad: u32,
    /// How many by length, those that failed included.
    pub latency: [u32; hist::BUCKETS],
}

const _: () = assert!(size_of::<OperationStats>() == 448 && align_of::<OperationStats>() == 8);

impl OperationStats {
    pub const ZERO: Self = Self { latency_ns: 0, bytes: 0, errors: 0, pad: 0, latency: [0; hist::BUCKETS] };
}
