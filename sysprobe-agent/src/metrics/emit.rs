//! Collects the series of one family of the table and encodes them at once.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

use super::buckets::{Buckets, Width};
use super::format::Format;
use super::table::{self, Kind};
use crate::config::metrics::ClassicBuckets;
use crate::snapshot::{Culprit, HistogramSample, Snapshot, Workload, WorkloadSample};

/// `kernel`, `unknown` and `other` may have this many times as many series as other workloads: the kernel
/// uses every device of the node, and a node has only one of each.
const OWN_FACTOR: u64 = 10;

/// Collects the series of one family. The first error is kept: a writer that failed once fails the scrape.
pub struct Emit<'a> {
    family: MetricEncoder<'a>,
    kind: Kind,
    result: fmt::Result,
    state: &'a mut State,
    export: Export,
    /// Number of series so far.
    series: u64,
}

/// State that is carried from one family to the next.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Scratch space for histograms.
    buckets: Buckets,
    /// Number of series of each family, by its full name.
    counted: Vec<(String, u64)>,
    /// Keyed by a hash of the workload.
    of_workloads: HashMap<u64, OfWorkload>,
    /// The time since which the agent's own series are counted.
    started_ms: u64,
    /// The time since which each series of the current family is counted, in their order, in milliseconds
    /// since the Unix epoch; 0 if unknown.
    pub(super) created_ms: Vec<u64>,
    /// Number of series that exceeded the limit of their workload.
    left_out: u64,
}

#[derive(Debug, Default)]
struct OfWorkload {
    /// Number of its series so far.
    series: u64,
    /// The time since which its totals are counted.
    created_ms: u64,
}

/// Export settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export {
    pub(super) format: Format,
    pub(super) classic: ClassicBuckets,
    pub(super) series_per_workload: u64,
}

impl State {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let workloads = snapshot.workloads.iter().map(|row| {
            let Workload { namespace, pod, container } = &row.workload;
            (hash([namespace, pod, container]), row.created_ms)
        });
        // A pod with a limit of its own is a workload as well.
        let pods = snapshot.pods.iter().map(|pod| (hash([&pod.namespace, &pod.pod, ""]), pod.created_ms));
        let mut of_workloads = HashMap::new();
        for (workload, created_ms) in pods.chain(workloads) {
            let of_workload = of_workloads.entry(workload).or_insert(OfWorkload { series: 0, created_ms });
            // The earlier time: neither had counted anything by then.
            of_workload.created_ms = of_workload.created_ms.min(created_ms);
        }
        Self { of_workloads, started_ms: snapshot.agent.started_unix_ms, ..Self::default() }
    }

    pub(super) fn note(&mut self, family: String, series: u64) {
        self.counted.push((family, series));
    }

    /// The time since which the labelled series is counted, if its workload may have `series` more of them.
    fn admit(&mut self, labels: Labels, series: u64, limit: u64) -> Option<u64> {
        let [namespace @ ("namespace", _), pod, container, ..] = labels else { return Some(self.started_ms) };
        let names = [namespace.1, pod.1, container.1];
        let limit = if is_own(names) { limit.saturating_mul(OWN_FACTOR) } else { limit };
        let workload = self.of_workloads.entry(hash(names)).or_default();
        let has_room = workload.series + series <= limit;
        if has_room {
            workload.series += series;
        } else {
            self.left_out += series;
        }
        has_room.then_some(workload.created_ms)
    }
}

fn hash(workload: [&str; 3]) -> u64 {
    let mut hasher = DefaultHasher::new();
    workload.hash(&mut hasher);
    hasher.finish()
}

/// Whether the labels are those of the kernel, the unknown or the sum of all others.
fn is_own([namespace, pod, container]: [&str; 3]) -> bool {
    namespace.is_empty() && pod.is_empty() && Workload::OWN_NAMES.contains(&container)
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

    /// The number of series, if all of them could be written.
    pub(super) fn end(self) -> Result<u64, fmt::Error> {
        self.result.map(|()| self.series)
    }

    /// Number of series of each family before this one.
    pub(super) fn each_family(&mut self) {
        let counted = std::mem::take(&mut self.state.counted);
        for (family, series) in &counted {
            self.value(&[("family", family)], *series as f64);
        }
        self.state.counted = counted;
    }

    /// Number of series of those families that exceeded their workload's limit.
    pub(super) const fn left_out(&self) -> u64 {
        self.state.left_out
    }

    /// Also notes the time since which the series is counted.
    fn may_write(&mut self, labels: Labels, series: u64, created_ms: Option<u64>) -> bool {
        let limit = self.export.series_per_workload;
        let admitted = if self.result.is_ok() { self.state.admit(labels, series, limit) } else { None };
        let Some(of_workload) = admitted else { return false };
        self.state.created_ms.push(created_ms.unwrap_or(of_workload));
        self.series += series;
        true
    }

    /// One number with these labels.
    pub(super) fn value(&mut self, labels: Labels, value: f64) {
        self.value_since(labels, None, value);
    }

    fn value_since(&mut self, labels: Labels, created_ms: Option<u64>, value: f64) {
        if self.may_write(labels, 1, created_ms) {
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

    /// One number with an additional label.
    pub(super) fn workload_with(&mut self, row: &WorkloadSample, label: (&str, &str), value: f64) {
        let [namespace, pod, container] = labels_of(&row.workload);
        self.value(&[namespace, pod, container, label], value);
    }

    /// Interference of one culprit; `created_ms` is set if the culprit is counted for a shorter time than the
    /// workload.
    pub(super) fn culprit(
        &mut self,
        row: &WorkloadSample,
        culprit: &Culprit,
        created_ms: Option<u64>,
        value: f64,
    ) {
        let [namespace, pod, container] = labels_of(&row.workload);
        let culprit = [
            ("culprit_namespace", culprit.namespace.as_str()),
            ("culprit_pod", &culprit.pod),
            ("culprit_container", &culprit.container),
        ];
        let labels = [namespace, pod, container, culprit[0], culprit[1], culprit[2]];
        self.value_since(&labels, created_ms, value);
    }

    /// One number of a protocol and an address family.
    pub(super) fn traffic(&mut self, workload: &Workload, [protocol, family]: [&str; 2], value: f64) {
        let [namespace, pod, container] = labels_of(workload);
        self.value(&[namespace, pod, container, ("protocol", protocol), ("family", family)], value);
    }

    /// A histogram in the finest classic buckets: a pod has only one of these.
    pub(super) fn fine_histogram(&mut self, workload: &Workload, sample: &HistogramSample) {
        self.encode_buckets(&labels_of(workload), sample, Width::EachPower);
    }

    /// A histogram with up to two additional labels.
    pub(super) fn histogram(&mut self, workload: &Workload, more: &[(&str, &str)], sample: &HistogramSample) {
        let mut labels = [("", ""); 5];
        labels[..3].copy_from_slice(&labels_of(workload));
        labels[3..3 + more.len()].copy_from_slice(more);
        self.encode_buckets(&labels[..3 + more.len()], sample, Width::EveryThird);
    }

    /// One number of a device and an operation.
    pub(super) fn request(&mut self, workload: &Workload, [device, operation]: [&str; 2], value: f64) {
        let [namespace, pod, container] = labels_of(workload);
        self.value(&[namespace, pod, container, ("device", device), ("operation", operation)], value);
    }

    /// An empty histogram is left out: most workloads do few kinds of things.
    fn encode_buckets(&mut self, labels: Labels, sample: &HistogramSample, width: Width) {
        let count = sample.count();
        if count == 0 {
            return;
        }
        let is_native = self.export.format == Format::Protobuf;
        self.state.buckets.fill_classic(sample, width, self.export.classic);
        // A native histogram is one series; a classic one has a series per bucket, plus count and sum.
        let of_text = self.state.buckets.classic.len() as u64 + 2;
        if !self.may_write(labels, if is_native { 1 } else { of_text }, None) {
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
