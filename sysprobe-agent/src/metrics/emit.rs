//! Takes the series of one family of the table, and encodes them as they come.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

use super::buckets::{Buckets, Width};
use super::format::Format;
use super::table::{self, Kind};
use crate::config::metrics::ClassicBuckets;
use crate::snapshot::{Culprit, HistogramSample, Workload, WorkloadSample};

/// Takes the series of one family. The first error is kept: a writer that failed once fails the scrape.
pub struct Emit<'a> {
    family: MetricEncoder<'a>,
    kind: Kind,
    result: fmt::Result,
    state: &'a mut State,
    export: Export,
    /// How many there are so far.
    series: u64,
}

/// What goes from one family to the next.
#[derive(Debug, Default)]
pub(super) struct State {
    /// What a histogram is made of.
    buckets: Buckets,
    /// How many series each family has, by its full name.
    counted: Vec<(String, u64)>,
    /// How many each workload has, by a hash of it.
    of_workloads: HashMap<u64, u64>,
    /// How many found no room among a workload's.
    left_out: u64,
}

/// How it is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export {
    pub(super) format: Format,
    pub(super) classic: ClassicBuckets,
    pub(super) series_per_workload: u64,
}

impl State {
    pub(super) fn note(&mut self, family: String, series: u64) {
        self.counted.push((family, series));
    }

    /// Whether a workload may have so many series more.
    fn has_room(&mut self, labels: Labels, series: u64, limit: u64) -> bool {
        let [namespace @ ("namespace", _), pod, container, ..] = labels else { return true };
        let mut hasher = DefaultHasher::new();
        (namespace.1, pod.1, container.1).hash(&mut hasher);
        let so_far = self.of_workloads.entry(hasher.finish()).or_default();
        let has_room = *so_far + series <= limit;
        if has_room {
            *so_far += series;
        } else {
            self.left_out += series;
        }
        has_room
    }
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl<'a> Emit<'a> {
    pub(super) const fn new(
        family: MetricEncoder<'a>,
        kind: Kind,
        state: &'a mut State,
        export: Export,
    ) -> Self {
        Self { family, kind, result: Ok(()), state, export, series: 0 }
    }

    /// How many series there are, if all could be written.
    pub(super) fn end(self) -> Result<u64, fmt::Error> {
        self.result.map(|()| self.series)
    }

    /// How many series each of the families before this one has.
    pub(super) fn each_family(&mut self) {
        let counted = std::mem::take(&mut self.state.counted);
        for (family, series) in &counted {
            self.value(&[("family", family)], *series as f64);
        }
        self.state.counted = counted;
    }

    /// How many series of those families found no room.
    pub(super) const fn left_out(&self) -> u64 {
        self.state.left_out
    }

    fn may_write(&mut self, labels: Labels, series: u64) -> bool {
        let limit = self.export.series_per_workload;
        let may = self.result.is_ok() && self.state.has_room(labels, series, limit);
        self.series += if may { series } else { 0 };
        may
    }

    /// One number with these labels.
    pub(super) fn value(&mut self, labels: Labels, value: f64) {
        if self.may_write(labels, 1) {
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

    /// In the finest classic buckets there are: a pod has only one of these.
    pub(super) fn fine_histogram(&mut self, workload: &Workload, sample: &HistogramSample) {
        self.encode_buckets(&labels_of(workload), sample, Width::EachPower);
    }

    /// With up to two labels more.
    pub(super) fn histogram(&mut self, workload: &Workload, more: &[(&str, &str)], sample: &HistogramSample) {
        let mut labels = [("", ""); 5];
        labels[..3].copy_from_slice(&labels_of(workload));
        labels[3..3 + more.len()].copy_from_slice(more);
        self.encode_buckets(&labels[..3 + more.len()], sample, Width::EveryThird);
    }

    /// Of a device and an operation.
    pub(super) fn request(&mut self, workload: &Workload, [device, operation]: [&str; 2], value: f64) {
        let [namespace, pod, container] = labels_of(workload);
        self.value(&[namespace, pod, container, ("device", device), ("operation", operation)], value);
    }

    /// Of what never happened there is none: most workloads do few things.
    fn encode_buckets(&mut self, labels: Labels, sample: &HistogramSample, width: Width) {
        let count = sample.count();
        if count == 0 {
            return;
        }
        let is_native = self.export.format == Format::Protobuf;
        self.state.buckets.fill_classic(sample, width, self.export.classic);
        // A native histogram is one series; else there is one for each bucket, and count and sum.
        let of_text = self.state.buckets.classic.len() as u64 + 2;
        if !self.may_write(labels, if is_native { 1 } else { of_text }) {
            return;
        }
        let sum = table::seconds(sample.sum_ns);
        if is_native {
            self.state.buckets.fill_native(sample);
        }
        let (classic, native) = (&self.state.buckets.classic, self.state.buckets.native());
        self.result = self.family.encode_family(&labels).and_then(|mut encoder| {
            if is_native {
                encoder.encode_histogram_with_native::<NoLabelSet>(sum, count, classic, None, native)
            } else {
                encoder.encode_histogram::<NoLabelSet>(sum, count, classic, None)
            }
        });
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
