//! Comparisons that yield a number instead of a branch. The verifier follows both sides of a branch through
//! all later code, and does so in each iteration of a loop. An unknown number is a single path.

/// 1 if `a < b`, else 0. The two are less than 2^63 apart.
#[inline(always)]
#[must_use]
pub fn is_below(a: u64, b: u64) -> u64 {
    top_bit(a.wrapping_sub(b))
}

/// `a - b` if that is above 0, else 0. The two are less than 2^63 apart.
#[inline(always)]
#[must_use]
pub fn excess(a: u64, b: u64) -> u64 {
    a.wrapping_sub(b) & is_below(a, b).wrapping_sub(1)
}

/// The value of bit 63. If the compiler saw the shift, it would recognise a comparison and emit a branch.
#[inline(always)]
fn top_bit(number: u64) -> u64 {
    #[cfg(target_arch = "bpf")]
    {
        let mut number = number;
        // SAFETY: it changes this number and nothing else.
        unsafe {
            core::arch::asm!("{number} >>= 63", number = inout(reg) number, options(pure, nomem));
        }
        number
    }
    #[cfg(not(target_arch = "bpf"))]
    {
        number >> 63
    }
}

#[cfg(test)]
mod tests {
    use super::{excess, is_below};

    #[test]
    fn numbers_less_than_half_the_range_apart_are_compared() {
        const FAR: u64 = 1 << 62;
        for (a, b) in [(0, 0), (0, 1), (1, 0), (5, FAR), (FAR, 5), (u64::MAX, u64::MAX - 1)] {
            assert_eq!(is_below(a, b), u64::from(a < b), "{a} < {b}");
            assert_eq!(excess(a, b), a.saturating_sub(b), "{a} - {b}");
        }
    }
}
