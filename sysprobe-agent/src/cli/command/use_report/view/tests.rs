//! Rendered windows.

use super::*;
use crate::cli::command::use_report::fixture::window;
use crate::cli::fixture::live::{SOURCE, app_of, json, screen, see};
use crate::cli::page::Pages;
use crate::cli::presenter::Presenter as _;
use crate::snapshot::Snapshot;

fn text(earlier: &Snapshot, later: &Snapshot, width: Width) -> String {
    Pages::<UseReport>::new(()).text(earlier, later, SOURCE, width)
}

#[test]
fn a_window_at_several_widths() {
    let (earlier, later) = window();
    insta::assert_snapshot!("eighty", text(&earlier, &later, Width::Columns(80)));
    insta::assert_snapshot!("full", text(&earlier, &later, Width::Full));
    for columns in 80..=200 {
        let text = text(&earlier, &later, Width::Columns(columns));
        assert!(text.lines().all(|line| format::width(line) <= columns), "{columns}: {text}");
    }
}

#[test]
fn an_ordinary_terminal() {
    let (earlier, later) = window();
    let mut app = app_of::<UseReport>((), earlier, (80, 24));
    see(&mut app, later);
    insta::assert_snapshot!("live", screen(&app, (80, 24)));
}

#[test]
fn an_older_agent_is_told_of() {
    let (earlier, mut later) = window();
    later.node = None;
    let text = text(&earlier, &later, Width::Columns(80));
    assert!(text.contains("This agent reports no data about the node"), "{text}");
}

#[test]
fn the_json_form_has_units() {
    let (earlier, later) = window();
    let document = json::<UseReport>(&earlier, &later, ());
    let busy = &document["measures"][0];
    assert_eq!((&busy["resource"], &busy["sort"]), (&"CPU".into(), &"utilisation".into()));
    assert_eq!(
        (&busy["value"], &busy["unit"], &busy["alarming"]),
        (&0.95.into(), &"ratio".into(), &true.into())
    );
    assert_eq!((&busy["behind"]["amount"], &busy["behind"]["unit"]), (&1.0.into(), &"number".into()));
    let untold = json::<UseReport>(&earlier, &Snapshot { node: None, ..later }, ());
    assert_eq!(untold["measures"][0]["value"], serde_json::Value::Null);
}
