//! What a switch costs with programs on it, the kernel's way to them included: the time of a round without
//! any, with an empty one, and with all programs of an attach mode.

use anyhow::Result;
use sysprobe_agent::probe;

use super::empty::Empties;
use super::report::RoundTrip;
use super::scripts::Script;
use super::{Stage, settle};
use crate::figures::Figures;
use crate::ring::Ring;

/// Rounds of a batch; few enough for most batches to go without a timer's interrupt.
const ROUNDS: u32 = 50;
const WARM_UP: usize = 5;
const BATCHES: usize = 25;

/// With the domains whose attach mode this kernel takes. `None` if they have nothing at the switch.
pub(super) fn measure(stage: &Stage, domains: &[&'static str]) -> Result<Option<RoundTrip>> {
    let sets = domains.iter().filter_map(|domain| probe::program_set(domain, stage.mode));
    let mut programs = sets.flat_map(|set| set.programs);
    let Some(at_switch) = programs.find(|program| Script::of_hook(program.hook) == Some(Script::Switch))
    else {
        return Ok(None);
    };
    let mut ring = Ring::pair()?;
    let [mut nothing, mut with_empty, mut with_product] = [const { Vec::new() }; 3];
    nothing.push(slice(&mut ring)?);
    for _ in 0..stage.times {
        let empty = Empties::start(&stage.loader, [at_switch])?;
        with_empty.push(slice(&mut ring)?);
        drop(empty);
        let product = stage.start_all(domains)?;
        with_product.push(slice(&mut ring)?);
        drop(product);
        nothing.push(slice(&mut ring)?);
    }
    // Against the slices without a program just before and after.
    let added = |with: &[f64]| {
        let pairs = with.iter().zip(nothing.windows(2));
        pairs
            .map(|(with, without)| with - f64::midpoint(without[0], without[1]))
            .collect::<Figures>()
            .spread()
    };
    Ok(Some(RoundTrip {
        mode: stage.mode.name().to_owned(),
        nothing: median(&nothing),
        empty: added(&with_empty),
        product: added(&with_product),
    }))
}

/// Nanoseconds of a round.
fn slice(ring: &mut Ring) -> Result<f64> {
    settle();
    let batches = ring.time_batches(WARM_UP + BATCHES, ROUNDS)?;
    Ok(median(&batches[WARM_UP..]))
}

fn median(values: &[f64]) -> f64 {
    values.iter().copied().collect::<Figures>().median()
}
