//! The exposition formats: protobuf, with native histograms; OpenMetrics 1.0; and the older text format for
//! readers that ask for none.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Protobuf,
    OpenMetrics,
    Plain,
}

impl Format {
    /// Number of formats.
    pub const COUNT: usize = 3;

    /// The format that an `Accept` header asks for: the supported one with the highest quality, and of
    /// several the first. Prometheus asks for protobuf if native histograms are enabled, else for
    /// OpenMetrics; a browser or curl gets the plain format.
    #[must_use]
    pub fn negotiate(accept: &str) -> Self {
        let mut best = (0.0, Self::Plain);
        for (format, quality) in accept.split(',').filter_map(wanted) {
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }

    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// One of the ranges of an `Accept` header: `TYPE/SUBTYPE;NAME=VALUE;...`.
fn wanted(range: &str) -> Option<(Format, f32)> {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next()?;
    let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |name: &str| {
        let named = parameters.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.trim_matches('"'))
    };
    let format = match kind {
        "application/vnd.google.protobuf"
            if parameter("proto").is_none_or(|proto| proto == "io.prometheus.client.MetricFamily")
                && parameter("encoding").is_none_or(|encoding| encoding == "delimited") =>
        {
            Format::Protobuf
        }
        "application/openmetrics-text" => Format::OpenMetrics,
        "text/plain" | "text/*" | "*/*" => Format::Plain,
        _ => return None,
    };
    Some((format, parameter("q").map_or(1.0, |quality| quality.parse().unwrap_or(0.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_likes_best_is_what_it_gets() {
        let cases = [
            ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", Format::OpenMetrics),
            ("text/plain;q=0.5,application/openmetrics-text;q=0.4", Format::Plain),
            ("*/*", Format::Plain),
            ("", Format::Plain),
            ("application/json", Format::Plain),
            ("application/openmetrics-text;q=0", Format::Plain),
        ];
        for (accept, format) in cases {
            assert_eq!(Format::negotiate(accept), format, "{accept}");
        }
    }

    #[test]
    fn prometheus_with_native_histograms_gets_protobuf() {
        let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                      encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,\
                      application/openmetrics-text;version=0.0.1;q=0.4,\
                      text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(Format::negotiate(accept), Format::Protobuf);
        let other = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                     encoding=text,text/plain;q=0.1";
        assert_eq!(Format::negotiate(other), Format::Plain, "a form of it that we do not have");
    }
}
