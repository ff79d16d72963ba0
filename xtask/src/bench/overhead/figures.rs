//! Medians, quartiles, and ratios of a part to its neighbours. No side effects.

/// The figures of one part of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) requests: f64,
    /// CPU time of the server for each request, in nanoseconds.
    pub(super) cpu_ns: f64,
    /// Requests per second.
    pub(super) rate: f64,
    /// The median of the requests' latency in nanoseconds, as their client sees it.
    pub(super) median_ns: f64,
    /// The 99th percentile of the latency, in nanoseconds.
    pub(super) p99_ns: f64,
}

/// A figure of a part, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Cpu,
    Rate,
    Median,
    P99,
}

/// The median of repeated measurements, and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Figure {
    pub(super) const ALL: [Self; 4] = [Self::Cpu, Self::Rate, Self::Median, Self::P99];

    pub(super) fn of(self, measured: &Measured) -> f64 {
        match self {
            Self::Cpu => measured.cpu_ns,
            Self::Rate => measured.rate,
            Self::Median => measured.median_ns,
            Self::P99 => measured.p99_ns,
        }
    }

    /// By how many percent the figure is higher in `with` than in the mean of the parts before and after it.
    /// The mean cancels steady drift, such as the machine's temperature.
    pub(super) fn change(self, before: &Measured, with: &Measured, after: &Measured) -> f64 {
        let base = f64::midpoint(self.of(before), self.of(after));
        (self.of(with) / base - 1.0) * 100.0
    }
}

impl Spread {
    /// `None` if there are no values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            low: quantile(&values, 0.25)?,
            median: quantile(&values, 0.5)?,
            high: quantile(&values, 0.75)?,
        })
    }
}

/// Interpolates linearly between two sorted values.
pub(super) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below the length")]
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(cpu_ns: f64) -> Measured {
        Measured {
            requests: 1000.0,
            cpu_ns,
            rate: 1e9 / cpu_ns,
            median_ns: 2.0 * cpu_ns,
            p99_ns: 9.0 * cpu_ns,
        }
    }

    #[test]
    fn quartiles_lie_between_the_values() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { low: 1.75, median: 2.5, high: 3.25 });
        assert_eq!(Spread::of([7.0]).unwrap(), Spread { low: 7.0, median: 7.0, high: 7.0 });
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn the_extreme_of_many_pairs_does_not_move_the_median() {
        let spread = Spread::of([9.0, 9.1, 9.2, 8.9, 9.0, 90.0, 8.8, 9.1]).unwrap();
        assert!((spread.median - 9.05).abs() < 1e-9, "{spread:?}");
        assert!(spread.high < 9.2, "{spread:?}");
    }

    #[test]
    fn a_change_is_against_the_mean_of_the_neighbours() {
        let change = Figure::Cpu.change(&measured(90.0), &measured(110.0), &measured(110.0));
        assert!((change - 10.0).abs() < 1e-9, "{change}");
        // A steady drift does not count as a change.
        let drift = Figure::Cpu.change(&measured(100.0), &measured(101.0), &measured(102.0));
        assert!(drift.abs() < 1e-9, "{drift}");
        let rate = Figure::Rate.change(&measured(100.0), &measured(125.0), &measured(100.0));
        assert!((rate + 20.0).abs() < 1e-9, "{rate}");
    }
}
