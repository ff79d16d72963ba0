//! The histogram's bucket search in the kernel against the same function in user space: one source, two
//! compilers, with a verifier and a JIT between.

mod support;

use support::bpf::load_for_test;
use support::figure;
use sysprobe_agent::bpf::{Loaded, MappedArray};
use sysprobe_agent::host::online_cpus;
use sysprobe_agent::probe::{Hook, Program};
use sysprobe_common::hist::{BUCKETS, UPPER_NS, bucket_of};

const PROGRAM: &str = "hist_buckets";
/// Values per run, as in `sysprobe-ebpf/src/bin/hist.rs`.
const VALUES: usize = 512;
/// A value that no search returns, so that the test notices if the kernel does not overwrite it.
const UNTOUCHED: u64 = u64::MAX;

/// The program and its two maps.
struct Search {
    loaded: Loaded,
    values: MappedArray<u64>,
    buckets: MappedArray<u64>,
    /// The CPU that runs it.
    cpu: u32,
}

impl Search {
    fn load() -> Self {
        let programs = const { &[Program::new(PROGRAM, Hook::OnDemand, "")] };
        let mut loaded = load_for_test("hist.o", programs);
        let map = |loaded: &mut Loaded, name| loaded.map_array(name).expect("an array of 64-bit numbers");
        let (values, buckets) = (map(&mut loaded, "HIST_VALUES"), map(&mut loaded, "HIST_BUCKETS"));
        Self { values, buckets, cpu: *online_cpus().first().expect("a CPU is online"), loaded }
    }

    /// The kernel's bucket of each value.
    fn buckets_of(&mut self, values: &[u64]) -> Vec<u64> {
        values.chunks(VALUES).flat_map(|chunk| self.run(chunk)).collect()
    }

    fn run(&mut self, values: &[u64]) -> Vec<u64> {
        for (index, value) in values.iter().enumerate() {
            self.values.write(index, *value);
            self.buckets.write(index, UNTOUCHED);
        }
        self.loaded.run_on(PROGRAM, &[self.cpu]).expect("a raw tracepoint program can be run");
        (0..values.len()).map(|index| self.buckets.read(index).expect("in the map")).collect()
    }

    /// Compares the buckets of all values.
    fn assert_agrees(&mut self, values: &[u64]) {
        for (value, kernel) in values.iter().zip(self.buckets_of(values)) {
            assert_eq!(kernel, bucket_of(*value) as u64, "the bucket of {value} ns");
        }
    }
}

/// Each value with its predecessor and successor, wrapping around at both ends of the range.
fn with_neighbours(values: impl Iterator<Item = u64>) -> Vec<u64> {
    values.flat_map(|value| [value.wrapping_sub(1), value, value.wrapping_add(1)]).collect()
}

#[test]
fn every_bound_and_its_neighbours_have_the_same_bucket_in_the_kernel() {
    let values = with_neighbours(UPPER_NS.into_iter());
    Search::load().assert_agrees(&values);
    figure(&format!("hist: {} values at bounds", values.len()));
}

#[test]
fn every_power_of_two_and_its_neighbours_have_the_same_bucket_in_the_kernel() {
    let powers = (0..u64::BITS).map(|exponent| 1 << exponent);
    // Around zero: the largest value, zero and one.
    let values = with_neighbours(powers.chain([0]));
    Search::load().assert_agrees(&values);
    figure(&format!("hist: {} values at powers of two", values.len()));
}

#[test]
fn values_of_all_lengths_have_the_same_bucket_in_the_kernel() {
    const COUNT: usize = 20_000;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Uniform over octaves, so that short and long waits are equally likely.
    let values: Vec<_> =
        (0..COUNT).map(|_| random.next() >> (random.next() % u64::from(u64::BITS))).collect();
    Search::load().assert_agrees(&values);
    let mut reached = [false; BUCKETS];
    for value in &values {
        reached[bucket_of(*value)] = true;
    }
    let reached = reached.iter().filter(|reached| **reached).count();
    figure(&format!("hist: {COUNT} random values in {reached} of {BUCKETS} buckets"));
    assert_eq!(reached, BUCKETS, "every bucket was tried");
}

/// xorshift64: the same values in every run, so that a failure is reproducible.
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
