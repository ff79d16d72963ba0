//! Latencies over time in one line: a block of eighths for each window. The scale is logarithmic and always
//! the same, so that lines can be compared with each other: of two workloads, and of one workload at two
//! times.

/// How many windows a line can show.
pub(super) const WINDOWS: usize = 60;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The second block begins here, in seconds. What is shorter is a device at its best.
const SECOND_BLOCK: f64 = 3.162_277_66e-4;
/// How many blocks further ten times the latency is: the last begins at 316 ms.
const BLOCKS_PER_DECADE: f64 = 2.0;

/// A character per window, in the order given; a blank where there is no number.
pub(super) fn line(seconds: &[Option<f64>]) -> String {
    seconds.iter().map(|seconds| seconds.map_or(' ', block)).collect()
}

fn block(seconds: f64) -> char {
    let above_first = (seconds / SECOND_BLOCK).log10() * BLOCKS_PER_DECADE + 1.0;
    let last = BLOCKS.len() - 1;
    // Zero has a logarithm of minus infinity, and what is above the histogram's range may be infinite.
    let reached = (1..=last).rfind(|index| above_first >= *index as f64);
    BLOCKS[reached.unwrap_or(0)]
}

#[cfg(test)]
mod tests;
