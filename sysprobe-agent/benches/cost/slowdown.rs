//! What the load itself feels: the time of a round without programs, with an empty one, and with the product.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;

use crate::figures::Figures;
use crate::ring::Ring;
use crate::variants::{Bench, EMPTY_SWITCH, PRODUCT};

const SETTLE: Duration = Duration::from_millis(100);
const MEASURE: Duration = Duration::from_millis(100);

pub(crate) fn report(bench: &Bench, pairs: usize) -> Result<String> {
    let mut ring = Ring::pair()?;
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..pairs {
        times[0].push(round_ns(&mut ring)?);
        let empty = bench.bench(&EMPTY_SWITCH)?;
        times[1].push(round_ns(&mut ring)?);
        drop(empty);
        let product = bench.start(&PRODUCT)?;
        times[2].push(round_ns(&mut ring)?);
        drop(product);
        times[3].push(round_ns(&mut ring)?);
    }
    let mut out = format!(
        "## Ping-pong round trip (two wakeups, two switches)\n\n\
         {pairs} rounds of: nothing, an empty program at the switch, product, nothing; {} ms each. Slowdown: \
         median of the ratios to the mean of the slices without a program before and after, 95 % interval by \
         bootstrap.\n\n\
         | | ns per round trip: median (quartiles) | slowdown | 95 % interval |\n|---|---:|---:|---:|\n",
        MEASURE.as_millis(),
    );
    let titles = ["nothing, before", "an empty program at the switch", "**product**", "nothing, after"];
    for (title, column) in titles.iter().zip(&times) {
        let mut ns = Figures::default();
        let mut slowdown = Figures::default();
        for (index, value) in column.iter().enumerate() {
            ns.push(*value);
            // The first slice is compared with the last only: a measure of the noise.
            let base = if *title == "nothing, before" {
                times[3][index]
            } else if *title == "nothing, after" {
                times[0][index]
            } else {
                f64::midpoint(times[0][index], times[3][index])
            };
            slowdown.push((value / base - 1.0) * 100.0);
        }
        let (low, high) = slowdown.interval();
        writeln!(out, "| {title} | {ns:.0} | {:+.1} % | {low:+.1} to {high:+.1} % |", slowdown.median())?;
    }
    Ok(out)
}

/// The median over many batches, after the caches and the patched code have settled.
fn round_ns(ring: &mut Ring) -> Result<f64> {
    ring.run(SETTLE)?;
    let mut batches = Figures::default();
    for batch in ring.time_rounds(MEASURE)? {
        batches.push(batch);
    }
    Ok(batches.median())
}
