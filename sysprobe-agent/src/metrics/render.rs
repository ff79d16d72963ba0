//! Walks the table over a snapshot and encodes it, family by family. Nothing is registered: a scrape is a value that is written out.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_protobuf};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as ExportedUnit};

use super::emit::{Emit, Export, State};
use super::format::Format;
use super::table::{self, Kind, Metric, Unit};
use super::text;
use crate::config::metrics::MetricsConfig;
use crate::snapshot::Snapshot;

/// Writes what is wanted of a snapshot in one of the forms.
pub fn render(snapshot: Snapshot, format: Format, wanted: &MetricsConfig) -> Result<Vec<u8>, Failed> {
    let (snapshot, state) = (Arc::new(exported(snapshot)), Arc::new(Mutex::new(State::default())));
    let export = Export {
        format,
        classic: wanted.classic_buckets,
        series_per_workload: wanted.series_per_workload.into(),
    };
    let mut out = Vec::new();
    // One at a time: the tree that protobuf is encoded from is several times as large as what comes out.
    for metric in table::all().filter(|metric| wanted.families.wants(&metric.full_name())) {
        let mut registry = Registry::default();
        let family = Family { snapshot: Arc::clone(&snapshot), metric, export, state: Arc::clone(&state) };
        registry.register_collector(Box::new(family));
        append(&mut out, &registry, format)?;
    }
    if format == Format::OpenMetrics {
        out.extend_from_slice(text::END.as_bytes());
    }
    Ok(out)
}

/// What the hidden ones did is exported as one workload.
fn exported(mut snapshot: Snapshot) -> Snapshot {
    snapshot.workloads.retain(|row| row.hidden.is_none());
    snapshot.workloads.extend(snapshot.other.take());
    snapshot
}

/// A writer that failed.
#[derive(Debug, thiserror::Error)]
#[error("the metrics could not be encoded: {0}")]
pub struct Failed(String);

impl From<fmt::Error> for Failed {
    fn from(error: fmt::Error) -> Self {
        Self(error.to_string())
    }
}

fn append(out: &mut Vec<u8>, registry: &Registry, format: Format) -> Result<(), Failed> {
    if format == Format::Protobuf {
        let family = prometheus_protobuf::encode_to_vec(registry);
        out.extend(family.map_err(|error| Failed(error.to_string()))?);
        return Ok(());
    }
    let mut family = String::new();
    prometheus_client::encoding::text::encode_registry(&mut family, registry)?;
    match format {
        Format::Plain => text::plain_from_openmetrics(out, &family),
        _ => out.extend_from_slice(family.as_bytes()),
    }
    Ok(())
}

struct Family {
    snapshot: Arc<Snapshot>,
    metric: &'static Metric,
    export: Export,
    state: Arc<Mutex<State>>,
}

/// The library asks for it.
impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.metric.name)
    }
}

impl Collector for Family {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Metric { name, help, unit, kind, .. } = self.metric;
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let unit = unit.exported();
        let family = encoder.encode_descriptor(name, help, unit.as_ref(), kind.exported())?;
        let mut emit = Emit::new(family, *kind, state, self.export);
        (self.metric.emit)(&self.snapshot, &mut emit);
        let series = emit.end()?;
        state.note(self.metric.full_name(), series);
        Ok(())
    }
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
