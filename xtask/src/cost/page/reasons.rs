//! The rows without a number: by reason, and then by the kernels on which they have none.

use std::collections::BTreeMap;
use std::fmt::Write;

/// For each reason the rows, and for each row its kernels.
#[derive(Default)]
pub(super) struct Reasons<'a>(BTreeMap<&'a str, BTreeMap<String, Vec<&'a str>>>);

impl<'a> Reasons<'a> {
    /// Adds a row. Those of a host have no kernel.
    pub(super) fn add(&mut self, reason: &'a str, row: String, kernel: Option<&'a str>) {
        let kernels = self.0.entry(reason).or_default().entry(row).or_default();
        // The same program may be in several attach modes.
        if kernels.last().copied() != kernel {
            kernels.extend(kernel);
        }
    }

    pub(super) fn to_text(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut out = "Not measured:\n\n".to_owned();
        for (reason, rows) in &self.0 {
            writeln!(out, "- {reason}: {}", groups(rows)).expect("writing to a string cannot fail");
        }
        out
    }
}

/// The rows that have no number on the same kernels stand together.
fn groups(rows: &BTreeMap<String, Vec<&str>>) -> String {
    let mut groups: BTreeMap<&[&str], Vec<&str>> = BTreeMap::new();
    for (row, kernels) in rows {
        groups.entry(kernels).or_default().push(row);
    }
    let group = |(kernels, rows): (&&[&str], &Vec<&str>)| match kernels {
        [] => rows.join(", "),
        _ => format!("{} on {}", rows.join(", "), kernels.join(", ")),
    };
    groups.iter().map(group).collect::<Vec<_>>().join("; ")
}
