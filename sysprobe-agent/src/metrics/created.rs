//! The time since which a series is counted, in the formats that can express it: a field of each counter and
//! histogram in protobuf, lines that end in `_created` in OpenMetrics. A server that reads it inserts a 0
//! there, so that the first value of a new series counts as growth. The older text format has no such thing.

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::Metric;

use super::table::Kind;

/// Sets the field `start_timestamp`, formerly `created_timestamp`. `created_ms` holds one time per series, in
/// the same order, in milliseconds since the Unix epoch; 0 is left out.
pub(super) fn stamp(series: &mut [Metric], created_ms: &[u64]) {
    for (one, ms) in series.iter_mut().zip(created_ms).filter(|(_, ms)| **ms != 0) {
        let field = match (&mut one.counter, &mut one.histogram) {
            (Some(counter), _) => &mut counter.start_timestamp,
            (None, Some(histogram)) => &mut histogram.start_timestamp,
            (None, None) => continue,
        };
        let stamp = field.get_or_insert_default();
        stamp.seconds = (ms / 1000).cast_signed();
        // Below a second, so it fits.
        stamp.nanos = i32::try_from(ms % 1000 * 1_000_000).unwrap_or(0);
    }
}

/// The text of one family with one more line for each counter and histogram, after its other lines, as in the
/// Go client's text.
pub(super) fn with_lines(text: &str, name: &str, kind: Kind, created_ms: &[u64]) -> String {
    let (labelled, last) = match kind {
        Kind::Counter => ("_total", "_total"),
        Kind::Histogram => ("_count", "_bucket{le=\"+Inf\""),
        Kind::Gauge => return text.to_owned(),
    };
    let mut times = created_ms.iter();
    let mut labels = "";
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        out.push_str(line);
        out.push('\n');
        let Some(rest) = line.strip_prefix(name) else { continue };
        if let Some((set, _)) = rest.strip_prefix(labelled).and_then(|rest| rest.rsplit_once(' ')) {
            labels = set;
        }
        if rest.starts_with(last)
            && let Some(ms) = times.next().filter(|ms| **ms != 0)
        {
            let (seconds, rest) = (ms / 1000, ms % 1000);
            out.extend([name, "_created", labels, &format!(" {seconds}.{rest:03}\n")]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_line_follows_it_with_its_labels() {
        let text = "# TYPE a_seconds counter\na_seconds_total{x=\"y z\"} 1.0\na_seconds_total{x=\"}\"} 2.0\n";
        let lines = "# TYPE a_seconds counter\n\
                     a_seconds_total{x=\"y z\"} 1.0\na_seconds_created{x=\"y z\"} 1700000000.007\n\
                     a_seconds_total{x=\"}\"} 2.0\n";
        assert_eq!(with_lines(text, "a_seconds", Kind::Counter, &[1_700_000_000_007, 0]), lines);
    }

    #[test]
    fn a_histograms_line_comes_after_its_buckets() {
        let text = "b_sum{x=\"1\"} 1.0\nb_count{x=\"1\"} 1\nb_bucket{le=\"2.0\",x=\"1\"} 1\n\
                    b_bucket{le=\"+Inf\",x=\"1\"} 1\nb_sum 1.0\nb_count 1\nb_bucket{le=\"+Inf\"} 1\n";
        let lines = "b_sum{x=\"1\"} 1.0\nb_count{x=\"1\"} 1\nb_bucket{le=\"2.0\",x=\"1\"} 1\n\
                     b_bucket{le=\"+Inf\",x=\"1\"} 1\nb_created{x=\"1\"} 5.000\n\
                     b_sum 1.0\nb_count 1\nb_bucket{le=\"+Inf\"} 1\nb_created 6.120\n";
        assert_eq!(with_lines(text, "b", Kind::Histogram, &[5_000, 6_120]), lines);
    }
}
