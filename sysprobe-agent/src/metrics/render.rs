//! Encodes a snapshot family by family, as the table lists them. Nothing is registered: a scrape is a value
//! that is written out.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_protobuf};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as ExportedUnit};
use prost::Message as _;

use super::created;
use super::emit::{Emit, Export, State};
use super::format::Format;
use super::table::{self, Kind, Metric, Unit};
use super::text;
use crate::config::metrics::MetricsConfig;
use crate::snapshot::Snapshot;

/// Encodes a snapshot in one of the formats, as the configuration wants it.
pub fn render(snapshot: Snapshot, format: Format, wanted: &MetricsConfig) -> Result<Vec<u8>, Failed> {
    let mut out = Vec::new();
    render_to(&mut out, snapshot, format, wanted)?;
    Ok(out)
}

/// The same, written family by family, so that the whole text is never in memory.
pub fn render_to(
    out: &mut impl Write,
    snapshot: Snapshot,
    format: Format,
    wanted: &MetricsConfig,
) -> Result<(), Failed> {
    let snapshot = Arc::new(exported(snapshot));
    let state = Arc::new(Mutex::new(State::new(&snapshot)));
    let export = Export {
        format,
        classic: wanted.classic_buckets,
        series_per_workload: wanted.series_per_workload.into(),
    };
    let created_lines = format == Format::OpenMetrics && wanted.created_lines;
    // One family at a time: the tree that protobuf is encoded from is several times as large as its output.
    for metric in table::all().filter(|metric| wanted.families.wants(&metric.full_name())) {
        let mut registry = Registry::default();
        let family = Family { snapshot: Arc::clone(&snapshot), metric, export, state: Arc::clone(&state) };
        registry.register_collector(Box::new(family));
        match format {
            Format::Protobuf => write_protobuf(out, &registry, &state)?,
            Format::Plain => {
                let mut plain = Vec::new();
                text::plain_from_openmetrics(&mut plain, &text_of(&registry)?);
                out.write_all(&plain)?;
            }
            Format::OpenMetrics if created_lines => {
                let text = text_of(&registry)?;
                let created_ms = &lock(&state).created_ms;
                let lines = created::with_lines(&text, &metric.family_name(), metric.kind, created_ms);
                out.write_all(lines.as_bytes())?;
            }
            Format::OpenMetrics => out.write_all(text_of(&registry)?.as_bytes())?,
        }
    }
    if format == Format::OpenMetrics {
        out.write_all(text::END.as_bytes())?;
    }
    Ok(())
}

/// The hidden workloads are exported as one, `other`.
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

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

fn text_of(registry: &Registry) -> Result<String, Failed> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode_registry(&mut text, registry)?;
    Ok(text)
}

fn write_protobuf(out: &mut impl Write, registry: &Registry, state: &Mutex<State>) -> Result<(), Failed> {
    for mut family in prometheus_protobuf::encode(registry)? {
        created::stamp(&mut family.metric, &lock(state).created_ms);
        out.write_all(&family.encode_length_delimited_to_vec())?;
    }
    Ok(())
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Family {
    snapshot: Arc<Snapshot>,
    metric: &'static Metric,
    export: Export,
    state: Arc<Mutex<State>>,
}

/// Required by the library.
impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.metric.name)
    }
}

impl Collector for Family {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Metric { name, help, unit, kind, .. } = self.metric;
        let state = &mut *lock(&self.state);
        state.created_ms.clear();
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
