//! The page of one pod, or other workload, that is opened from a table: its rows in each table, where the
//! data that it received lost time, and the causes and culprits of its waits for a CPU. The parts are those
//! of the commands that show them separately.

use std::collections::HashSet;

use ratatui::{style::Style, text::Line};

use super::{columns::Content, keys::OPENED_BINDINGS, selection::Selection, table, views::View};
use crate::cli::command::blame::Blame;
use crate::cli::command::latency::Latency;
use crate::cli::format;
use crate::cli::page::{Body, Form};
use crate::cli::rows::{PodRows, Row};
use crate::cli::subject::Subject;
use crate::cli::target::Target;
use crate::cli::tui::input::Binding;
use crate::cli::workload_view::Report;
use crate::snapshot::Snapshot;

/// The tables whose rows are shown; the fourth has no numbers beyond theirs.
const TABLES: [View; 3] = [View::Cpu, View::Io, View::Net];

/// A window of the workload.
#[derive(Debug)]
pub(super) struct Opened {
    subject: Subject,
    /// The whole first, then its containers if it has several.
    rows: Vec<Row>,
    latency: Latency,
    blame: Blame,
}

impl Report for Opened {
    const COMMAND: &'static str = "sysprobe top";
    /// There is no JSON form: the commands that show the parts have their own.
    const VERSION: u32 = 1;
    type Document<'a> = ();

    fn of(earlier: &Snapshot, later: &Snapshot, target: &Target) -> Option<Self> {
        let subject = Subject::of(earlier, later, target)?;
        let pods = PodRows::of(earlier, later, |sample| target.has(&sample.workload));
        let mut rows: Vec<Row> = pods.all().filter(|row| target.has(&row.workload)).collect();
        rows.sort_by(|a, b| a.workload.cmp(&b.workload));
        if rows.len() == 2 {
            // A single container equals its pod.
            rows.truncate(1);
        }
        let (latency, blame) = (Latency::of(earlier, later, target)?, Blame::of(earlier, later, target)?);
        Some(Self { subject, rows, latency, blame })
    }

    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn has_numbers(&self) -> bool {
        self.latency.has_numbers() || self.blame.has_numbers()
    }

    fn body(&self, form: &Form) -> Body {
        let mut rows = Vec::new();
        for view in TABLES {
            let selection = Selection { view, sort: view.default_sort(), pods: true, ..Selection::default() };
            let table = table::lines(&self.rows, &selection, form.width).into_iter();
            rows.extend(
                table
                    .enumerate()
                    .map(|(at, line)| if at == 0 { format::head(line) } else { Line::raw(line) }),
            );
            rows.push(Line::raw(""));
        }
        rows.extend(self.latency.received_lines(form));
        rows.push(Line::raw(""));
        let waits = self.blame.body(&Form { position: String::new(), ..form.clone() });
        rows.extend(waits.fixed.into_iter().chain(waits.rows));
        let title = format!("CPU, I/O, network; what it received; why it waited.{}", form.which_lines());
        Body { fixed: vec![Line::styled(title, Style::new().bold())], rows }
    }

    fn document(&self) {}

    fn bindings() -> &'static [Binding] {
        &OPENED_BINDINGS
    }

    fn terms() -> Vec<(&'static str, &'static str)> {
        let columns = TABLES.into_iter().flat_map(|view| view.columns().iter());
        let columns = columns.filter(|column| matches!(column.content, Content::Text(_)));
        let columns = columns.map(|column| (column.title, column.help));
        let mut seen = HashSet::new();
        columns.chain(Blame::terms()).chain(Latency::terms()).filter(|(word, _)| seen.insert(*word)).collect()
    }
}
