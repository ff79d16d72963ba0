//! A row's receive latencies: the difference of two samples of the domain `rxpath`, all protocols together.

use super::window::Window;
use crate::snapshot::{HistogramSample, RxpathSample};

/// Data that was followed from the device to its reader, in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceivedRow {
    /// Number per second; `None` in a window without length.
    pub rate: Option<f64>,
    /// Seconds.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    /// The upper bound of the longest latency's bucket; infinite above the histogram's range.
    pub max: Option<f64>,
}

impl ReceivedRow {
    pub(super) fn of_window(since: &RxpathSample, window: Window) -> Self {
        let mut all = HistogramSample::default();
        since.protocols.values().for_each(|path| all.add(&path.total));
        Self {
            rate: window.rate(all.count() as f64),
            p50: all.quantile(0.5),
            p99: all.quantile(0.99),
            max: all.max_bound(),
        }
    }
}
