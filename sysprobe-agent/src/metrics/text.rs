//! The two text forms: OpenMetrics 1.0, and the older Prometheus text format for readers that do not ask for it. They
//! differ in three things: the type line of a counter carries `_total` in the older one, which has no unit lines and no
//! end mark.

use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Plain,
}

impl Format {
    /// What an `Accept` header asks for. Prometheus names OpenMetrics; a browser or curl gets the plain form.
    #[must_use]
    pub fn negotiate(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Plain }
    }

    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

pub(super) fn plain_from_openmetrics(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        // The help comes first, but only the type line tells whether the name needs its `_total`.
        if let Some(named) = comment.strip_prefix("HELP ") {
            help = named.split_once(' ');
        } else if let Some((name, kind)) =
            comment.strip_prefix("TYPE ").and_then(|typed| typed.split_once(' '))
        {
            let total = if kind == "counter" { "_total" } else { "" };
            if let Some((_, text)) = help.take().filter(|(helped, _)| *helped == name) {
                writeln!(out, "# HELP {name}{total} {text}").expect("writing to a string cannot fail");
            }
            writeln!(out, "# TYPE {name}{total} {kind}").expect("writing to a string cannot fail");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_comments_get_its_full_name() {
        let openmetrics = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total 1.0\n# EOF\n";
        let plain = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total 1.0\n";
        assert_eq!(plain_from_openmetrics(openmetrics), plain);
    }

    #[test]
    fn other_types_keep_theirs() {
        let openmetrics = "# HELP b Help.\n# TYPE b gauge\nb{x=\"# y\"} 1.0\n# EOF\n";
        assert_eq!(plain_from_openmetrics(openmetrics), "# HELP b Help.\n# TYPE b gauge\nb{x=\"# y\"} 1.0\n");
    }

    #[test]
    fn only_who_asks_for_openmetrics_gets_it() {
        assert_eq!(
            Format::negotiate("application/openmetrics-text;version=1.0.0,text/plain"),
            Format::OpenMetrics
        );
        assert_eq!(Format::negotiate("*/*"), Format::Plain);
        assert_eq!(Format::negotiate(""), Format::Plain);
    }
}
