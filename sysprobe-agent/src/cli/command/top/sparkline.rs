//! Latencies over time in one line: a block of eighths for each window. The scale is logarithmic and fixed,
//! so that lines can be compared between workloads and over time.

/// Maximum number of windows in a line.
pub(super) const WINDOWS: usize = 60;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The second block begins here, in seconds. Anything shorter is a device at its best.
const SECOND_BLOCK: f64 = 3.162_277_66e-4;
/// Number of blocks per factor of ten in latency: the last block begins at 316 ms.
const BLOCKS_PER_DECADE: f64 = 2.0;

/// One character per window, in the given order; a blank for a missing number.
pub(super) fn line(seconds: &[Option<f64>]) -> String {
    seconds.iter().map(|seconds| seconds.map_or(' ', block)).collect()
}

fn block(seconds: f64) -> char {
    let above_first = (seconds / SECOND_BLOCK).log10() * BLOCKS_PER_DECADE + 1.0;
    let last = BLOCKS.len() - 1;
    // The logarithm of zero is minus infinity, and a latency above the histogram's range may be infinite.
    let reached = (1..=last).rfind(|index| above_first >= *index as f64);
    BLOCKS[reached.unwrap_or(0)]
}

#[cfg(test)]
mod tests;
