//! Converts OpenMetrics to the older Prometheus text format. The older format differs in three things: the
//! type line of a counter includes `_total`, and there are neither unit lines nor an end mark.

/// The end of a text in OpenMetrics.
pub(super) const END: &str = "# EOF\n";

/// Appends the text of one or more families.
pub(super) fn plain_from_openmetrics(out: &mut Vec<u8>, openmetrics: &str) {
    let mut help = None;
    let mut write = |parts: &[&str]| parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    for line in openmetrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            write(&[line, "\n"]);
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
                write(&["# HELP ", name, total, " ", text, "\n"]);
            }
            write(&["# TYPE ", name, total, " ", kind, "\n"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(openmetrics: &str) -> String {
        let mut out = Vec::new();
        plain_from_openmetrics(&mut out, openmetrics);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_counters_comments_get_its_full_name() {
        let openmetrics = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds \
                           seconds\na_seconds_total 1.0\n# EOF\n";
        let expected = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total 1.0\n";
        assert_eq!(plain(openmetrics), expected);
    }

    #[test]
    fn other_types_keep_theirs() {
        let openmetrics = "# HELP b Help.\n# TYPE b gauge\nb{x=\"# y\"} 1.0\n# EOF\n";
        assert_eq!(plain(openmetrics), "# HELP b Help.\n# TYPE b gauge\nb{x=\"# y\"} 1.0\n");
    }
}
