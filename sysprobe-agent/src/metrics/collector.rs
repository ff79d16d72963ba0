//! Walks the table over a snapshot and encodes it. Nothing is registered: a scrape is a value that is written out.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as ExportedUnit};
use sysprobe_common::hist;

use super::table::{self, Kind, Metric, Unit};
use super::text::{self, Format};
use crate::snapshot::{Culprit, HistogramSample, Snapshot, Workload, WorkloadSample, bucket_upper};

/// The classic buckets that scrapers of text get: powers of two from 4 microseconds to 8 seconds. Finer would be dear for a
/// server that keeps one series per bucket.
const CLASSIC: std::ops::RangeInclusive<i32> = -18..=3;
/// Of how many powers of two one has a bucket: each, or where a histogram is multiplied by operations every third.
const EACH: i32 = 1;
const EVERY_THIRD: i32 = 3;

/// Writes a snapshot in one of the text forms.
pub fn render(snapshot: Snapshot, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(SnapshotCollector(snapshot)));
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &registry)?;
    Ok(match format {
        Format::OpenMetrics => out,
        Format::Plain => text::plain_from_openmetrics(&out),
    })
}

#[derive(Debug)]
struct SnapshotCollector(Snapshot);

impl Collector for SnapshotCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        table::all().try_for_each(|metric| encode_metric(&self.0, metric, &mut encoder))
    }
}

fn encode_metric(snapshot: &Snapshot, metric: &Metric, encoder: &mut DescriptorEncoder) -> fmt::Result {
    let unit = metric.unit.exported();
    let family =
        encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), metric.kind.exported())?;
    let mut emit = Emit { family, kind: metric.kind, result: Ok(()) };
    (metric.emit)(snapshot, &mut emit);
    emit.result
}

/// Takes the series of one family. The first error is kept: a writer that failed once fails the scrape.
pub struct Emit<'a> {
    family: MetricEncoder<'a>,
    kind: Kind,
    result: fmt::Result,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Emit<'_> {
    /// One number with these labels.
    pub(super) fn value(&mut self, labels: Labels, value: f64) {
        if self.result.is_ok() {
            self.result = self.encode(labels, value);
        }
    }

    fn encode(&mut self, labels: Labels, value: f64) -> fmt::Result {
        if labels.is_empty() {
            return encode_value(&mut self.family, self.kind, value);
        }
        encode_value(&mut self.family.encode_family(&labels)?, self.kind, value)
    }

    /// One number without labels, if there is one.
    pub(super) fn optional(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.value(&[], value);
        }
    }

    pub(super) fn workload(&mut self, row: &WorkloadSample, value: f64) {
        self.value(&labels_of(&row.workload), value);
    }

    pub(super) fn workload_kind(&mut self, row: &WorkloadSample, kind: &str, value: u64) {
        let [namespace, pod, container] = labels_of(&row.workload);
        self.value(&[namespace, pod, container, ("kind", kind)], value as f64);
    }

    /// One number with a label more.
    pub(super) fn workload_with(&mut self, row: &WorkloadSample, label: (&str, &str), value: f64) {
        let [namespace, pod, container] = labels_of(&row.workload);
        self.value(&[namespace, pod, container, label], value);
    }

    /// Of who made it wait.
    pub(super) fn culprit(&mut self, row: &WorkloadSample, culprit: &Culprit, value: f64) {
        let [namespace, pod, container] = labels_of(&row.workload);
        let culprit = [
            ("culprit_namespace", culprit.namespace.as_str()),
            ("culprit_pod", &culprit.pod),
            ("culprit_container", &culprit.container),
        ];
        self.value(&[namespace, pod, container, culprit[0], culprit[1], culprit[2]], value);
    }

    /// Of a protocol and a family.
    pub(super) fn traffic(&mut self, workload: &Workload, [protocol, family]: [&str; 2], value: f64) {
        let [namespace, pod, container] = labels_of(workload);
        self.value(&[namespace, pod, container, ("protocol", protocol), ("family", family)], value);
    }

    pub(super) fn histogram(&mut self, workload: &Workload, sample: &HistogramSample) {
        self.buckets(&labels_of(workload), &classic_buckets(sample, EACH), sample);
    }

    pub(super) fn operation_histogram(
        &mut self,
        workload: &Workload,
        operation: &str,
        sample: &HistogramSample,
    ) {
        let [namespace, pod, container] = labels_of(workload);
        let labels = [namespace, pod, container, ("operation", operation)];
        self.buckets(&labels, &classic_buckets(sample, EVERY_THIRD), sample);
    }

    /// Of a device and an operation.
    pub(super) fn request(&mut self, workload: &Workload, of: [&str; 2], value: f64) {
        self.value(&labels_of_request(workload, of), value);
    }

    pub(super) fn request_histogram(&mut self, workload: &Workload, of: [&str; 2], sample: &HistogramSample) {
        self.buckets(&labels_of_request(workload, of), &classic_buckets(sample, EVERY_THIRD), sample);
    }

    /// Of a way, or a stage of it.
    pub(super) fn path_histogram(
        &mut self,
        workload: &Workload,
        of: &[(&str, &str)],
        sample: &HistogramSample,
    ) {
        let labels = [&labels_of(workload), of].concat();
        self.buckets(&labels, &classic_buckets(sample, EVERY_THIRD), sample);
    }

    fn buckets(&mut self, labels: Labels, buckets: &[(f64, u64)], sample: &HistogramSample) {
        if self.result.is_ok() {
            let sum = table::seconds(sample.sum_ns);
            self.result = self.family.encode_family(&labels).and_then(|mut encoder| {
                encoder.encode_histogram::<NoLabelSet>(sum, sample.count(), buckets, None)
            });
        }
    }
}

fn encode_value(encoder: &mut MetricEncoder, kind: Kind, value: f64) -> fmt::Result {
    match kind {
        Kind::Counter => encoder.encode_counter::<NoLabelSet, f64, f64>(&value, None),
        Kind::Gauge => encoder.encode_gauge(&value),
        Kind::Histogram => Err(fmt::Error),
    }
}

fn labels_of(workload: &Workload) -> [(&str, &str); 3] {
    [("namespace", &workload.namespace), ("pod", &workload.pod), ("container", &workload.container)]
}

fn labels_of_request<'a>(
    workload: &'a Workload,
    [device, operation]: [&'a str; 2],
) -> [(&'a str, &'a str); 5] {
    let [namespace, pod, container] = labels_of(workload);
    [namespace, pod, container, ("device", device), ("operation", operation)]
}

/// The kernel's buckets merged into the classic ones, not cumulative. Exact: every classic bound is a kernel bound.
fn classic_buckets(sample: &HistogramSample, of_octaves: i32) -> Vec<(f64, u64)> {
    let mut buckets = Vec::new();
    let mut gathered = 0;
    for (bucket, count) in sample.buckets.iter().enumerate() {
        gathered += count;
        let index = hist::native_index(bucket);
        if index % (4 * of_octaves) == 0 && CLASSIC.contains(&(index / 4)) {
            buckets.push((bucket_upper(bucket), gathered));
            gathered = 0;
        }
    }
    buckets.push((f64::INFINITY, gathered));
    buckets
}

impl Unit {
    fn exported(self) -> Option<ExportedUnit> {
        Some(match self {
            Self::None => return None,
            Self::Seconds => ExportedUnit::Seconds,
            Self::Bytes => ExportedUnit::Bytes,
            Self::Cores => ExportedUnit::Other("cores".to_owned()),
        })
    }
}

impl Kind {
    const fn exported(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

#[cfg(test)]
mod tests;
