//! The measures of each resource, and their thresholds.

use std::collections::BTreeMap;

use super::{Behind, Measure, Sort, Unit, Window};
use crate::cli::rows::{DeviceRow, Row};
use crate::snapshot::{Culprit, NodeSample, WorkloadKind, WorkloadSample, seconds};

use Sort::{Errors, Saturation, Utilisation};

/// Queues grow above this utilization.
const MUCH: f64 = 0.9;
const MUCH_STOLEN: f64 = 0.05;
const MUCH_THROTTLED: f64 = 0.1;
const MUCH_RECLAIM: f64 = 0.01;
const MANY_REQUESTS: f64 = 4.0;
const MANY_SENT_AGAIN: f64 = 0.01;
/// For events that should never happen.
const ANY: f64 = f64::MIN_POSITIVE;

/// A number with its unit, and its threshold if it has one.
struct Value {
    number: Option<f64>,
    unit: Unit,
    alarming_from: Option<f64>,
}

impl Value {
    fn of(number: Option<f64>, unit: Unit) -> Self {
        Self { number, unit, alarming_from: None }
    }

    fn from(self, alarming_from: f64) -> Self {
        Self { alarming_from: Some(alarming_from), ..self }
    }

    fn measure(self, resource: &str, sort: Sort, what: &'static str, behind: Option<Behind>) -> Measure {
        let Self { number: value, unit, alarming_from } = self;
        Measure { resource: resource.to_owned(), sort, what, value, unit, alarming_from, behind }
    }
}

/// The memory of slices, and of cgroups that are only a path, includes that of everything below them.
fn is_leaf(sample: &WorkloadSample) -> bool {
    let is_slice = sample.workload.container.rsplit_once('.').is_some_and(|(_, kind)| kind == "slice");
    matches!(sample.kind, WorkloadKind::Container | WorkloadKind::Unit) && !is_slice
}

/// The largest amount above 0; of several that are equal, the first.
fn largest<T>(amounts: impl Iterator<Item = (T, f64)>) -> Option<(T, f64)> {
    amounts.filter(|(_, amount)| *amount > 0.0).min_by(|one, other| other.1.total_cmp(&one.1))
}

impl Window<'_> {
    pub(super) fn measures(&self) -> Vec<Measure> {
        [self.cpu(), self.memory(), self.disks(), self.links(), self.network()].concat()
    }

    fn cpu(&self) -> Vec<Measure> {
        let times = self.nodes.map(|(then, now)| {
            let busy = now.cpu.busy_ns.saturating_sub(then.cpu.busy_ns) as f64;
            let idle = now.cpu.idle_ns.saturating_sub(then.cpu.idle_ns) as f64;
            let stolen = now.cpu.stolen_ns.saturating_sub(then.cpu.stolen_ns) as f64;
            (busy, stolen, busy + idle + stolen)
        });
        let share = |of: fn((f64, f64, f64)) -> f64| {
            times.filter(|times| times.2 > 0.0).map(|times| of(times) / times.2)
        };
        let cpus =
            self.nodes.filter(|(_, now)| now.cpus > 0).map_or(f64::INFINITY, |(_, now)| now.cpus as f64);
        let waiting = Value::of(self.sum(|row| row.waiting), Unit::Number).from(cpus);
        let throttled = Value::of(self.sum(|row| row.throttled_rate), Unit::Time).from(MUCH_THROTTLED);
        vec![
            Value::of(share(|times| times.0), Unit::Share).from(MUCH).measure(
                "CPU",
                Utilisation,
                "busy",
                self.most(Unit::Number, |row| row.cpu_cores),
            ),
            waiting.measure("CPU", Saturation, "tasks that wait", self.most(Unit::Number, |row| row.waiting)),
            throttled.measure(
                "CPU",
                Saturation,
                "throttled",
                self.most(Unit::Time, |row| row.throttled_rate),
            ),
            Value::of(share(|times| times.1), Unit::Share).from(MUCH_STOLEN).measure(
                "CPU",
                Saturation,
                "stolen by the hypervisor",
                None,
            ),
        ]
    }

    fn memory(&self) -> Vec<Measure> {
        let used = self
            .nodes
            .filter(|(_, now)| now.memory.total_bytes > 0)
            .map(|(_, now)| 1.0 - now.memory.available_bytes as f64 / now.memory.total_bytes as f64);
        let working_set = self.most_of_samples(Unit::Bytes, |_, now| {
            let levels = now.memory.as_ref().filter(|_| is_leaf(now))?.levels?;
            Some(levels.working_set_bytes as f64)
        });
        let reclaim = |then: Option<&WorkloadSample>, now: &WorkloadSample| {
            let before = then.and_then(|then| then.reclaim).map_or(0, |reclaim| reclaim.took_ns);
            Some(seconds(now.reclaim?.took_ns.saturating_sub(before)) / self.seconds)
        };
        let kills = |then: Option<&WorkloadSample>, now: &WorkloadSample| {
            let kills =
                |sample: &WorkloadSample| sample.memory.as_ref().filter(|_| is_leaf(sample))?.oom_kills;
            // If a workload existed but could not be read before, its kills in this window are unknown.
            let before = then.map_or(Some(0), kills)?;
            Some(kills(now)?.saturating_sub(before) as f64 / self.seconds)
        };
        let swapped = self.rate(|node| node.memory.swapped_in + node.memory.swapped_out);
        vec![
            Value::of(used, Unit::Share).from(MUCH).measure("memory", Utilisation, "in use", working_set),
            Value::of(self.sum_of_samples(reclaim), Unit::Time).from(MUCH_RECLAIM).measure(
                "memory",
                Saturation,
                "direct reclaim",
                self.most_of_samples(Unit::Time, reclaim),
            ),
            Value::of(swapped, Unit::PerSecond).measure("memory", Saturation, "pages swapped", None),
            Value::of(self.rate(|node| node.memory.oom_kills), Unit::PerSecond).from(ANY).measure(
                "memory",
                Errors,
                "OOM kills",
                self.most_of_samples(Unit::PerSecond, kills),
            ),
        ]
    }

    fn disks(&self) -> Vec<Measure> {
        let Some((then, now)) = self.nodes else { return Vec::new() };
        let of_disk = |name: &String| {
            let (before, after) = (then.disks.get(name)?, now.disks.get(name)?);
            let length = self.node_seconds()?;
            let per_second = |then: u64, now: u64| Some(seconds(now.checked_sub(then)?) / length);
            let resource = format!("disk {name}");
            let of = |number: fn(&DeviceRow) -> Option<f64>| {
                move |row: &Row| {
                    number(row.disk.as_ref()?.devices.iter().find(|device| device.name == *name)?)
                }
            };
            let busy = per_second(before.busy_ns, after.busy_ns).map(|share| share.min(1.0));
            let busy = Value::of(busy, Unit::Share).from(MUCH);
            // The kernel accounts for requests when they end, so the mean misses those of a disk that hangs.
            let mean = per_second(before.requests_ns, after.requests_ns);
            let waiting = Value::of(mean.map(|mean| mean.max(after.requests_in_flight as f64)), Unit::Number);
            let failed = Value::of(self.sum(of(DeviceRow::error_rate)), Unit::PerSecond).from(ANY);
            Some([
                busy.measure(&resource, Utilisation, "busy", self.most(Unit::PerSecond, of(DeviceRow::rate))),
                waiting.from(MANY_REQUESTS).measure(
                    &resource,
                    Saturation,
                    "requests at a time",
                    self.most(Unit::Number, of(DeviceRow::in_flight)),
                ),
                failed.measure(
                    &resource,
                    Errors,
                    "requests that failed",
                    self.most(Unit::PerSecond, of(DeviceRow::error_rate)),
                ),
            ])
        };
        now.disks.keys().filter_map(of_disk).flatten().collect()
    }

    fn links(&self) -> Vec<Measure> {
        let Some((then, now)) = self.nodes else { return Vec::new() };
        let traffic = |row: &Row| {
            let network = row.network?;
            Some(network.received_rate? + network.sent_rate?)
        };
        let of_link = |name: &String| {
            let (before, after) = (then.links.get(name)?, now.links.get(name)?);
            let length = self.node_seconds()?;
            let per_second = |then: u64, now: u64| Some(now.checked_sub(then)? as f64 / length);
            let received = per_second(before.received_bytes, after.received_bytes)?;
            let sent = per_second(before.sent_bytes, after.sent_bytes)?;
            let resource = format!("link {name}");
            // Each direction has the full speed.
            let used = match after.bits_per_second {
                Some(bits) => Value::of(Some(received.max(sent) * 8.0 / bits as f64), Unit::Share).from(MUCH),
                None => Value::of(Some(received + sent), Unit::BytesPerSecond),
            };
            // The drops include frames of protocols that this host does not speak, which occur in any
            // network.
            let dropped = Value::of(per_second(before.drops, after.drops), Unit::PerSecond);
            let failed = Value::of(per_second(before.errors, after.errors), Unit::PerSecond).from(ANY);
            // Which workload uses which link is unknown, so with several links none is named.
            let behind = (now.links.len() == 1).then(|| self.most(Unit::BytesPerSecond, traffic)).flatten();
            Some([
                used.measure(&resource, Utilisation, "in use", behind),
                dropped.measure(&resource, Saturation, "packets dropped", None),
                failed.measure(&resource, Errors, "packets with errors", None),
            ])
        };
        now.links.keys().filter_map(of_link).flatten().collect()
    }

    /// Measures of the network that no device knows.
    fn network(&self) -> Vec<Measure> {
        let again = |row: &Row| row.tcp()?.retransmit_rate;
        let sent = self.sum(|row| row.tcp()?.segment_rate).filter(|rate| *rate > 0.0);
        // A sender whose peer does not answer only retransmits.
        let all_again = self.sum(again).filter(|again| *again > 0.0 || sent.is_some());
        let ratio = all_again.map(|again| again / sent.unwrap_or(again));
        let dropped = |row: &Row| row.network?.drop_rate;
        let failed = |row: &Row| row.tcp()?.failure_rate;
        let unheard = |row: &Row| row.tcp()?.accept_drop_rate;
        let errors = |number, from| Value::of(number, Unit::PerSecond).from(from);
        vec![
            errors(self.sum(unheard), ANY).measure(
                "network",
                Saturation,
                "accept-queue drops",
                self.most(Unit::PerSecond, unheard),
            ),
            errors(self.rate(|node| node.backlog_drops), ANY).measure(
                "network",
                Saturation,
                "backlog drops",
                None,
            ),
            Value::of(ratio, Unit::Share).from(MANY_SENT_AGAIN).measure(
                "network",
                Errors,
                "retransmitted segments",
                self.most(Unit::PerSecond, again),
            ),
            errors(self.sum(dropped), f64::INFINITY).measure(
                "network",
                Errors,
                "packets dropped",
                self.most(Unit::PerSecond, dropped),
            ),
            errors(self.sum(failed), f64::INFINITY).measure(
                "network",
                Errors,
                "connections failed",
                self.most(Unit::PerSecond, failed),
            ),
        ]
    }

    /// `None` if the machine's counters are missing, or if a total went backwards.
    fn rate(&self, total: fn(&NodeSample) -> u64) -> Option<f64> {
        let (then, now) = self.nodes?;
        Some(total(now).checked_sub(total(then))? as f64 / self.node_seconds()?)
    }

    /// The time between the two readings of the machine's own counters, which differs from that of the
    /// snapshots.
    fn node_seconds(&self) -> Option<f64> {
        let (then, now) = self.nodes?;
        Some(seconds(now.monotonic_ns.checked_sub(then.monotonic_ns)?)).filter(|length| *length > 0.0)
    }

    /// `None` if no row has the number.
    fn sum(&self, number: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        self.rows.iter().filter_map(number).reduce(|sum, number| sum + number)
    }

    /// The workload with the largest part, if any has one.
    fn most(&self, unit: Unit, number: impl Fn(&Row) -> Option<f64>) -> Option<Behind> {
        let (row, amount) = largest(self.rows.iter().filter_map(|row| Some((row, number(row)?))))?;
        Some(Behind { who: row.workload.as_culprit(), amount, unit })
    }

    /// A number that no table has, by container.
    fn samples(
        &self,
        number: impl Fn(Option<&WorkloadSample>, &WorkloadSample) -> Option<f64>,
    ) -> impl Iterator<Item = (&WorkloadSample, f64)> {
        let samples = self.later.workloads.iter();
        samples.filter_map(move |now| Some((now, number(self.before.of(now), now)?)))
    }

    fn sum_of_samples(
        &self,
        number: impl Fn(Option<&WorkloadSample>, &WorkloadSample) -> Option<f64>,
    ) -> Option<f64> {
        self.samples(number).map(|(_, number)| number).reduce(|sum, number| sum + number)
    }

    fn most_of_samples(
        &self,
        unit: Unit,
        number: impl Fn(Option<&WorkloadSample>, &WorkloadSample) -> Option<f64>,
    ) -> Option<Behind> {
        let mut amounts = BTreeMap::<Culprit, f64>::new();
        for (sample, amount) in self.samples(number) {
            *amounts.entry(sample.workload.as_culprit()).or_default() += amount;
        }
        let (who, amount) = largest(amounts.into_iter())?;
        Some(Behind { who, amount, unit })
    }
}
