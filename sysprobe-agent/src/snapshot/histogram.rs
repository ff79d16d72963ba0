//! A histogram in a snapshot, in the kernel side's buckets (`sysprobe_common::hist`). A workload has about
//! twenty of them, most of which are empty, and is copied with each snapshot. An empty histogram therefore
//! takes no memory, and copies share their buckets until one is written to. A command keeps only the
//! non-empty buckets of what it reads from an agent.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sysprobe_common::hist;

/// Counts, not cumulative.
pub type Buckets = [u64; hist::BUCKETS];

static EMPTY: Buckets = [0; _];

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HistogramSample {
    /// `hist::BUCKETS` counts; none in the JSON form of an empty histogram.
    buckets: Counts,
    pub sum_ns: u64,
}

#[derive(Clone, Debug, Default)]
enum Counts {
    /// All are zero.
    #[default]
    None,
    All(Arc<Buckets>),
    /// The non-zero counts, with their indices.
    Some(Arc<[(u8, u64)]>),
}

const _: () = assert!(hist::BUCKETS <= 256);

impl HistogramSample {
    #[must_use]
    pub fn new(buckets: Buckets, sum_ns: u64) -> Self {
        Self { buckets: Counts::from(buckets), sum_ns }
    }

    #[must_use]
    pub fn buckets(&self) -> Cow<'_, Buckets> {
        match &self.buckets {
            Counts::None => Cow::Borrowed(&EMPTY),
            Counts::All(buckets) => Cow::Borrowed(buckets),
            Counts::Some(counts) => Cow::Owned(spread(counts)),
        }
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets().iter().sum()
    }

    /// Adds what the kernel side has counted.
    pub fn gather(&mut self, counts: &[u32; hist::BUCKETS], sum_ns: u64) {
        self.sum_ns += sum_ns;
        if counts.iter().any(|count| *count > 0) {
            let own = self.buckets.make_mut();
            own.iter_mut().zip(counts).for_each(|(own, count)| *own += u64::from(*count));
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        match (&self.buckets, &other.buckets) {
            (_, Counts::None) => {}
            (Counts::None, _) => self.buckets = other.buckets.clone(),
            _ => {
                let own = self.buckets.make_mut();
                own.iter_mut().zip(other.buckets().iter()).for_each(|(own, other)| *own += other);
            }
        }
    }

    /// The increase since `earlier`. A total that went backwards (the agent restarted) counts as new.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if self.sum_ns < earlier.sum_ns {
            return self.clone();
        }
        let mut buckets = *self.buckets();
        buckets
            .iter_mut()
            .zip(earlier.buckets().iter())
            .for_each(|(now, then)| *now = now.saturating_sub(*then));
        Self::new(buckets, self.sum_ns - earlier.sum_ns)
    }

    /// The `q`-quantile in seconds, wrong by at most 9.1 %: the geometric middle of its bucket. `None` when
    /// empty.
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

    /// The upper bound of the last non-empty bucket, in seconds: no value was longer, unless it overflowed.
    #[must_use]
    pub fn max_bound(&self) -> Option<f64> {
        self.buckets().iter().rposition(|bucket| *bucket > 0).map(bucket_upper)
    }
}

#[cfg(test)]
impl HistogramSample {
    /// The histogram of these values.
    pub(crate) fn of(values_ns: &[u64]) -> Self {
        let mut buckets = EMPTY;
        for ns in values_ns {
            buckets[hist::bucket_of(*ns)] += 1;
        }
        Self::new(buckets, values_ns.iter().sum())
    }
}

impl Counts {
    /// Copies the buckets first if another histogram shares them.
    fn make_mut(&mut self) -> &mut Buckets {
        match self {
            Self::None => *self = Self::All(Arc::new(EMPTY)),
            Self::Some(counts) => *self = Self::All(Arc::new(spread(counts))),
            Self::All(_) => {}
        }
        match self {
            Self::All(buckets) => Arc::make_mut(buckets),
            Self::None | Self::Some(_) => unreachable!("it was made one of all buckets above"),
        }
    }

    /// The form for histograms that are only read.
    fn compact(buckets: &[u64]) -> Self {
        let places = (0..=u8::MAX).zip(buckets.iter().copied());
        let counts: Vec<_> = places.filter(|(_, count)| *count > 0).collect();
        if counts.is_empty() { Self::None } else { Self::Some(counts.into()) }
    }
}

impl From<Buckets> for Counts {
    fn from(buckets: Buckets) -> Self {
        if buckets == EMPTY { Self::None } else { Self::All(Arc::new(buckets)) }
    }
}

fn spread(counts: &[(u8, u64)]) -> Buckets {
    let mut buckets = EMPTY;
    for (place, count) in counts {
        buckets[usize::from(*place)] = *count;
    }
    buckets
}

impl PartialEq for HistogramSample {
    fn eq(&self, other: &Self) -> bool {
        self.sum_ns == other.sum_ns && self.buckets() == other.buckets()
    }
}

impl Eq for HistogramSample {}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.collect_seq::<[u64; 0]>([]),
            Self::All(buckets) => serializer.collect_seq(buckets.iter()),
            Self::Some(counts) => serializer.collect_seq(spread(counts)),
        }
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = Vec::<u64>::deserialize(deserializer)?;
        if counts.is_empty() {
            return Ok(Self::default());
        }
        if counts.len() != hist::BUCKETS {
            let wanted = format!("{} buckets", hist::BUCKETS);
            return Err(D::Error::invalid_length(counts.len(), &&*wanted));
        }
        Ok(Self::compact(&counts))
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
