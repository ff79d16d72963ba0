//! Medians, spreads and intervals: what is left of noisy measurements.

use std::fmt;

use crate::programs::report::Spread;

/// Repeated measurements of one thing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Vec<f64>);

impl Figures {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn quartiles(&self) -> (f64, f64) {
        (self.quantile(0.25), self.quantile(0.75))
    }

    pub(crate) fn least(&self) -> f64 {
        self.quantile(0.0)
    }

    pub(crate) fn spread(&self) -> Spread {
        let (low, high) = self.quartiles();
        Spread { median: self.median(), low, high }
    }

    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let index = (share * last as f64).round() as usize;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    /// A 95 % interval of the median: medians of a thousand samples drawn from these, with replacement.
    pub(crate) fn interval(&self) -> (f64, f64) {
        const DRAWS: usize = 1_000;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let draw = |_| {
            let values = (0..self.0.len()).map(|_| self.0[random.below(self.0.len())]).collect();
            Self(values).median()
        };
        let medians = Self((0..DRAWS).map(draw).collect());
        (medians.quantile(0.025), medians.quantile(0.975))
    }
}

impl FromIterator<f64> for Figures {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        Self(values.into_iter().collect())
    }
}

/// `median (first quartile - third quartile)`.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let (low, high) = self.quartiles();
        write!(f, "{:.digits$} ({low:.digits$}-{high:.digits$})", self.median())
    }
}

/// Marsaglia's xorshift: good enough to draw samples, and the same ones each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}
