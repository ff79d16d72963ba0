//! The kernel's bucket search against the definition, computed independently in floating point and with
//! integers.
use super::*;
use proptest::prelude::*;

/// The definition, bound by bound.
fn bucket_by_search(nanoseconds: u64) -> usize {
    UPPER_NS.iter().position(|bound| nanoseconds <= *bound).unwrap_or(OVERFLOW)
}

/// `v/10^9 <= 2^(index/4)` without rounding: both sides to the fourth power, `v^4 * 2^-index <= 10^36`.
fn is_within_bound(nanoseconds: u64, index: i32) -> bool {
    let square = u128::from(nanoseconds).pow(2);
    let limit = 10_u128.pow(18);
    // square * 2^(-index/2) <= limit; an odd index compares the squares once more, in wider numbers.
    let left = wide_mul(square, square);
    let right = wide_mul(limit, limit);
    if index >= 0 { left <= shift_left(right, index) } else { shift_left(left, -index) <= right }
}

type Wide = [u32; 16];

#[expect(clippy::cast_possible_truncation, reason = "each cast takes the low half on purpose")]
fn wide_mul(a: u128, b: u128) -> Wide {
    let mut out = [0_u32; 16];
    for i in 0..4 {
        let mut carry = 0_u64;
        for j in 0..4 {
            let product = u64::from((a >> (32 * i)) as u32) * u64::from((b >> (32 * j)) as u32);
            let sum = product + u64::from(out[i + j]) + carry;
            out[i + j] = sum as u32;
            carry = sum >> 32;
        }
        out[i + 4] = carry as u32;
    }
    reverse(out)
}

fn shift_left(value: Wide, bits: i32) -> Wide {
    let mut little = reverse(value);
    for _ in 0..bits {
        let mut carry = 0;
        for limb in &mut little {
            let next = *limb >> 31;
            *limb = (*limb << 1) | carry;
            carry = next;
        }
        assert_eq!(carry, 0, "512 bits hold every product of this test");
    }
    reverse(little)
}

/// Arrays compare from the first element on, so the comparable form is big-endian.
fn reverse(mut limbs: Wide) -> Wide {
    limbs.reverse();
    limbs
}

#[test]
fn bounds_are_exact_powers_of_two_of_a_second() {
    for (bucket, bound) in UPPER_NS.iter().enumerate() {
        let index = native_index(bucket);
        assert!(is_within_bound(*bound, index), "bound {bound} of index {index} is too large");
        assert!(!is_within_bound(bound + 1, index), "bound {bound} of index {index} is too small");
    }
    assert_eq!(UPPER_NS[OVERFLOW - 1], 32_000_000_000);
    assert_eq!(UPPER_NS[(-MIN_INDEX) as usize], 1_000_000_000);
}

#[test]
fn every_bound_and_its_neighbours_are_where_the_definition_says() {
    for bound in UPPER_NS {
        for value in bound - 1..=bound + 1 {
            assert_eq!(bucket_of(value), bucket_by_search(value), "value {value}");
        }
    }
}

#[test]
fn extremes_stay_inside() {
    assert_eq!(bucket_of(0), 0);
    assert_eq!(bucket_of(1), 0);
    assert_eq!(bucket_of(u64::MAX), OVERFLOW);
}

#[test]
fn neighbouring_bounds_are_a_quarter_octave_apart() {
    for pair in UPPER_NS.windows(2) {
        let ratio = pair[1] as f64 / pair[0] as f64;
        // Rounding to whole nanoseconds matters most near 477 ns, where one is 0.2 %.
        assert!((ratio / 2_f64.powf(0.25) - 1.0).abs() < 0.003, "ratio {ratio}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn kernel_search_equals_the_definition(exponent in 0_u32..64, fraction: u64) {
        // Uniform over octaves, so that short and long waits are tried alike.
        let value = (1_u64 << exponent) | (fraction & ((1_u64 << exponent) - 1));
        prop_assert_eq!(bucket_of(value), bucket_by_search(value));
    }

    #[test]
    fn a_longer_wait_is_never_in_an_earlier_bucket(a in 0_u64..40_000_000_000, b in 0_u64..40_000_000_000) {
        let (short, long) = if a < b { (a, b) } else { (b, a) };
        prop_assert!(bucket_of(short) <= bucket_of(long));
    }
}
