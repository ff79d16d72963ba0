//! The histogram of all latencies: four buckets per power of two, aligned to powers of two of a *second*, so
//! that it equals a Prometheus native histogram of schema 2 without any conversion.
//!
//! Bucket `k` (except the first and the last) covers `(2^((k-1+MIN)/4), 2^((k+MIN)/4)]` seconds. Values are
//! whole nanoseconds, and every nanosecond lands in the mathematically right bucket: the bounds below are the
//! exact ones rounded down to a nanosecond, which changes no comparison of integers.
//!
//! The kernel side finds a bucket without a division or a loop. It cuts each power of two (of a nanosecond)
//! into eight cells; a bucket is wider than a cell, so at most one bound lies inside a cell. One table
//! look-up gives the cell's first bucket and that bound, and one comparison does the rest. The cell's number
//! is computed without branches, because the verifier would follow both sides of each one through all later
//! code.

/// Sub-buckets per power of two, as a power of two: the `schema` of a Prometheus native histogram.
pub const SCHEMA: u32 = 2;
/// The native index of the first bucket, `(0, 2^-21 s]`, which is about 477 ns wide.
pub const MIN_INDEX: i32 = -84;
/// The native index of the last bounded bucket, which ends at `2^5 s` = 32 s.
pub const MAX_INDEX: i32 = 20;
/// Bounded buckets plus one for everything longer than 32 s.
pub const BUCKETS: usize = (MAX_INDEX - MIN_INDEX + 2) as usize;
/// The bucket for values above the last bound.
pub const OVERFLOW: usize = BUCKETS - 1;

/// The largest value, in nanoseconds, of each bounded bucket.
pub const UPPER_NS: [u64; OVERFLOW] = upper_bounds();

/// `floor(2^62 * 2^(k/4))` for k in 0..4.
const QUARTERS_Q62: [u128; 4] =
    [1 << 62, 5_484_249_825_272_419_511, 6_521_908_912_666_391_106, 7_755_900_482_342_532_474];

#[expect(clippy::cast_possible_truncation, reason = "32 s are 2^35 ns")]
const fn upper_bounds() -> [u64; OVERFLOW] {
    let mut bounds = [0; OVERFLOW];
    let mut bucket = 0;
    while bucket < OVERFLOW {
        let index = native_index(bucket);
        let octave = index.div_euclid(4);
        let nanoseconds_q62 = 1_000_000_000 * QUARTERS_Q62[index.rem_euclid(4) as usize];
        bounds[bucket] = (nanoseconds_q62 >> (62 - octave)) as u64;
        bucket += 1;
    }
    bounds
}

/// A histogram of durations, with their sum.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub sum_ns: u64,
    pub counts: [u32; BUCKETS],
}

impl Times {
    pub const ZERO: Self = Self { sum_ns: 0, counts: [0; BUCKETS] };
}

/// Cells per power of two of a nanosecond, as a power of two.
const CELL_BITS: u32 = 3;
/// The first bucket ends above 2^8 ns, so the table begins there.
const BOTTOM_BIT: u32 = 8;
/// The last bounded bucket ends below 2^36 ns, so the table ends there.
const TOP_BIT: u32 = 35;
const CELLS: usize = ((TOP_BIT - BOTTOM_BIT + 1) as usize) << CELL_BITS;

const _: () = assert!(UPPER_NS[0] >= 1 << BOTTOM_BIT && UPPER_NS[OVERFLOW - 1] < 1 << (TOP_BIT + 1));

/// The first bucket of a cell, and the bound that divides the cell.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Cell {
    /// Values above it belong to the next bucket.
    bound: u64,
    bucket: u64,
}

static CELLS_TABLE: [Cell; CELLS] = cells();

const fn cells() -> [Cell; CELLS] {
    let mut table = [Cell { bound: u64::MAX, bucket: OVERFLOW as u64 }; CELLS];
    let mut cell = 0;
    let mut bucket = 0;
    while cell < CELLS {
        let lowest = lowest_of_cell(cell);
        while bucket < OVERFLOW && UPPER_NS[bucket] < lowest {
            bucket += 1;
        }
        let bound = if bucket < OVERFLOW { UPPER_NS[bucket] } else { u64::MAX };
        table[cell] = Cell { bound, bucket: bucket as u64 };
        cell += 1;
    }
    table
}

/// The inverse of [`cell_of`]: the smallest value that falls into a cell.
const fn lowest_of_cell(cell: usize) -> u64 {
    let mantissa = (1 << CELL_BITS) + (cell & ((1 << CELL_BITS) - 1));
    (mantissa as u64) << (BOTTOM_BIT - CELL_BITS) << (cell >> CELL_BITS)
}

/// A table of two-bit entries: the position of the highest bit of each number below 16.
const OF_NIBBLE: u32 = 0xFFFF_AA50;

/// The position of the highest bit that is set in a value from 1 to 2^28 - 1. BPF has no instruction for it.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call would cost more than the body")]
const fn highest_bit(value: u32) -> u32 {
    let by_16 = has_bit_from(value, 16) << 4;
    let value = value >> by_16;
    let by_8 = has_bit_from(value, 8) << 3;
    let value = value >> by_8;
    let by_4 = has_bit_from(value, 4) << 2;
    let value = value >> by_4;
    (by_16 | by_8 | by_4) + (OF_NIBBLE >> (value << 1) & 3)
}

/// 1 if a value below 2^31 has this bit or a higher one, else 0; without a branch.
#[inline(always)]
#[expect(clippy::inline_always, reason = "see highest_bit")]
const fn has_bit_from(value: u32, bit: u32) -> u32 {
    value.wrapping_add((1 << 31) - (1 << bit)) >> 31
}

/// The cell of a value from 2^8 to 2^36 - 1.
#[inline(always)]
#[expect(clippy::inline_always, reason = "see highest_bit")]
#[expect(clippy::cast_possible_truncation, reason = "what is left of the value has 28 bits")]
const fn cell_of(nanoseconds: u64) -> usize {
    let exponent = highest_bit((nanoseconds >> BOTTOM_BIT) as u32);
    // The mantissa includes the highest bit, so it is a number from 8 to 15.
    let mantissa = nanoseconds >> (BOTTOM_BIT - CELL_BITS) >> exponent;
    (((exponent as usize) << CELL_BITS) + mantissa as usize).wrapping_sub(1 << CELL_BITS)
}

/// The bucket of a value. Always in range.
#[inline(always)]
#[must_use]
#[expect(clippy::inline_always, reason = "see highest_bit")]
#[expect(clippy::cast_possible_truncation, reason = "a bucket number is below 128")]
pub fn bucket_of(nanoseconds: u64) -> usize {
    if nanoseconds <= UPPER_NS[0] {
        return 0;
    }
    if nanoseconds > UPPER_NS[OVERFLOW - 1] {
        return OVERFLOW;
    }
    let Some(cell) = CELLS_TABLE.get(cell_of(nanoseconds)) else { return OVERFLOW };
    cell.bucket as usize + usize::from(nanoseconds > cell.bound)
}

/// The Prometheus native index of a bucket: index `i` ends at `2^(i/4)` seconds.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a bucket number is below 128"
)]
pub const fn native_index(bucket: usize) -> i32 {
    MIN_INDEX + bucket as i32
}

#[cfg(test)]
mod tests;
