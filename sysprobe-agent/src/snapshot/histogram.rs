//! A histogram in a snapshot, in the kernel's own buckets (`sysprobe_common::hist`). A workload has a score of them, most of them of what
//! never happened, and is copied with each snapshot: so the buckets take no memory while there is nothing in them, and are shared by
//! copies until one is written to.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sysprobe_common::hist;

/// Counts, not cumulative.
pub type Buckets = [u64; hist::BUCKETS];

static EMPTY: Buckets = [0; _];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramSample {
    /// `hist::BUCKETS` counts; none in the JSON form of what never happened.
    buckets: Counts,
    pub sum_ns: u64,
}

/// `None` where all are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts(Option<Arc<Buckets>>);

impl HistogramSample {
    #[must_use]
    pub fn new(buckets: Buckets, sum_ns: u64) -> Self {
        Self { buckets: Counts::from(buckets), sum_ns }
    }

    #[must_use]
    pub fn buckets(&self) -> &Buckets {
        self.buckets.0.as_deref().unwrap_or(&EMPTY)
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets().iter().sum()
    }

    /// Adds what the kernel side has gathered.
    pub fn gather(&mut self, counts: &[u32; hist::BUCKETS], sum_ns: u64) {
        self.sum_ns += sum_ns;
        if counts.iter().any(|count| *count > 0) {
            let own = self.buckets.make_mut();
            own.iter_mut().zip(counts).for_each(|(own, count)| *own += u64::from(*count));
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        match &other.buckets.0 {
            None => {}
            Some(buckets) if self.buckets.0.is_none() => self.buckets = Counts(Some(Arc::clone(buckets))),
            Some(buckets) => {
                let own = self.buckets.make_mut();
                own.iter_mut().zip(&**buckets).for_each(|(own, other)| *own += other);
            }
        }
    }

    /// What happened since `earlier`. A total that went backwards (the agent restarted) counts as new.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if self.sum_ns < earlier.sum_ns {
            return self.clone();
        }
        let mut buckets = *self.buckets();
        buckets.iter_mut().zip(earlier.buckets()).for_each(|(now, then)| *now = now.saturating_sub(*then));
        Self::new(buckets, self.sum_ns - earlier.sum_ns)
    }

    /// The `q`-quantile in seconds, wrong by at most 9.1 %: the geometric middle of its bucket. `None` when empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (q * count as f64).ceil().max(1.0);
        let mut seen = 0.0;
        let bucket = self.buckets().iter().position(|bucket| {
            seen += *bucket as f64;
            seen >= rank
        })?;
        Some(bucket_middle(bucket))
    }

    /// The upper bound of the last bucket that holds anything, in seconds: no value was longer, unless it overflowed.
    #[must_use]
    pub fn max_bound(&self) -> Option<f64> {
        self.buckets().iter().rposition(|bucket| *bucket > 0).map(bucket_upper)
    }
}

#[cfg(test)]
impl HistogramSample {
    /// Of these values.
    pub(crate) fn of(values_ns: &[u64]) -> Self {
        let mut buckets = EMPTY;
        for ns in values_ns {
            buckets[hist::bucket_of(*ns)] += 1;
        }
        Self::new(buckets, values_ns.iter().sum())
    }
}

impl Counts {
    /// Copies what another histogram shares.
    fn make_mut(&mut self) -> &mut Buckets {
        Arc::make_mut(self.0.get_or_insert_with(|| Arc::new(EMPTY)))
    }
}

impl From<Buckets> for Counts {
    fn from(buckets: Buckets) -> Self {
        Self((buckets != EMPTY).then(|| Arc::new(buckets)))
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().flat_map(|buckets| buckets.iter()))
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = Vec::<u64>::deserialize(deserializer)?;
        if counts.is_empty() {
            return Ok(Self::default());
        }
        let wanted = || format!("{} buckets", hist::BUCKETS);
        let buckets = Buckets::try_from(counts);
        buckets.map(Self::from).map_err(|counts| D::Error::invalid_length(counts.len(), &&*wanted()))
    }
}

/// The upper bound of a bucket in seconds; infinite for the overflow.
#[must_use]
pub fn bucket_upper(bucket: usize) -> f64 {
    if bucket >= hist::OVERFLOW {
        f64::INFINITY
    } else {
        (f64::from(hist::native_index(bucket)) / 4.0).exp2()
    }
}

fn bucket_middle(bucket: usize) -> f64 {
    if bucket >= hist::OVERFLOW {
        return bucket_upper(hist::OVERFLOW - 1);
    }
    ((f64::from(hist::native_index(bucket)) - 0.5) / 4.0).exp2()
}

#[cfg(test)]
mod tests;
