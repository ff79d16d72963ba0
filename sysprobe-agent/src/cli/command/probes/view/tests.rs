//! Rendered windows.

use crossterm::event::KeyCode;

use super::*;
use crate::cli::command::probes::fixture::window;
use crate::cli::fixture::live::{SOURCE, app_of, json, press, screen, see};
use crate::cli::page::Pages;
use crate::cli::presenter::Presenter as _;
use crate::snapshot::Snapshot;

fn text(earlier: &Snapshot, later: &Snapshot, width: Width) -> String {
    Pages::<Window>::new(Order::default()).text(earlier, later, SOURCE, width)
}

#[test]
fn a_window_at_several_widths() {
    let (earlier, later) = window();
    insta::assert_snapshot!("eighty", text(&earlier, &later, Width::Columns(80)));
    insta::assert_snapshot!("full", text(&earlier, &later, Width::Full));
}

#[test]
fn nothing_is_wider_than_asked_for() {
    let (earlier, later) = window();
    for columns in 80..=200 {
        let text = text(&earlier, &later, Width::Columns(columns));
        assert!(text.lines().all(|line| format::width(line) <= columns), "{columns}: {text}");
    }
}

#[test]
fn why_there_are_no_numbers() {
    let (_, mut later) = window();
    later.agent.measuring = Measuring::Refused("Operation not permitted".to_owned());
    let mut after = later.clone();
    after.monotonic_ns += 2_000_000_000;
    let text = text(&later, &after, Width::Columns(80));
    assert!(text.contains("The kernel refuses to measure its programs: Operation not permitted."), "{text}");
    assert!(!text.contains("All programs"), "{text}");
    let document = json::<Window>(&later, &after, Order::default());
    assert_eq!(
        (&document["measuring"], &document["reason"]),
        (&"refused".into(), &"Operation not permitted".into())
    );
    let program = &document["programs"][0];
    assert!(program["runs_per_second"].is_null() && program["cpu_ratio"].is_null(), "{program}");
}

#[test]
fn keys_sort_what_is_shown() {
    let (earlier, later) = window();
    let mut app = app_of::<Window>(Order::default(), earlier, (80, 24));
    see(&mut app, later);
    insta::assert_snapshot!("live", screen(&app, (80, 24)));
    press(&mut app, KeyCode::Char('S'));
    press(&mut app, KeyCode::Char('r'));
    insta::assert_snapshot!("live_by_name_reversed", screen(&app, (80, 24)));
}

#[test]
fn the_json_form_has_units_and_totals() {
    let (earlier, later) = window();
    let document = json::<Window>(&earlier, &later, Order::default());
    assert_eq!((&document["version"], &document["measuring"]), (&1.into(), &"on".into()));
    let switch = &document["programs"][1];
    assert_eq!(switch["hook"], "tp_btf/sched_switch");
    assert_eq!((&switch["runs_per_second"], &switch["mean_seconds"]), (&10_000.0.into(), &150e-9.into()));
    assert_eq!((&switch["missed"], &switch["total_missed"]), (&3.into(), &4.into()));
    assert_eq!(document["maps"][1]["entries"], 900);
    assert_eq!(document["lost"][0]["total"], 9);
}
