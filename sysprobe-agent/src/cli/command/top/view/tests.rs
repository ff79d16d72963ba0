//! The live screen at several sizes.

use std::{sync::Arc, time::Duration};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    style::{Color, Modifier},
};

use super::*;
use crate::cli::command::top::selection::Selection;
use crate::cli::fixture::{flushing, node, snapshot, without_cpu, workload};
use crate::cli::presenter::{App as _, Event, Settings};

fn settings() -> Settings {
    Settings {
        window: None,
        interval: Duration::from_secs(2),
        wide: false,
        color: true,
        source: "agent at /run/sysprobe.sock".to_owned(),
    }
}

fn app(size: (u16, u16), keys: &str) -> App {
    let (earlier, later) = node();
    let mut app = App::new(settings(), Selection::default(), Arc::new(earlier), size);
    app.update(Event::Sample(Arc::new(later)));
    press(&mut app, keys);
    app
}

fn press(app: &mut App, keys: &str) {
    for c in keys.chars() {
        app.update(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
    }
}

fn screen(app: &App, (width, height): (u16, u16)) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal.backend().clone()
}

fn row(buffer: &Buffer, y: u16) -> String {
    (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect()
}

#[test]
fn an_ordinary_terminal() {
    insta::assert_snapshot!(screen(&app((80, 24), "jj"), (80, 24)));
}

#[test]
fn a_large_terminal() {
    insta::assert_snapshot!(screen(&app((120, 40), "asssr"), (120, 40)));
}

#[test]
fn a_tiny_terminal_with_everything_wrong() {
    let mut app = app((40, 10), "p");
    let (earlier, later) = node();
    app.update(Event::Failed("cannot connect to /run/sysprobe.sock: Connection refused".to_owned()));
    insta::assert_snapshot!("failed", screen(&app, (40, 10)));
    press(&mut app, "p");
    app.update(Event::Sample(Arc::new(earlier)));
    app.update(Event::Sample(Arc::new(without_cpu(later))));
    press(&mut app, "/shop");
    insta::assert_snapshot!("filtered", screen(&app, (40, 10)));
}

#[test]
fn help_on_an_ordinary_and_on_a_tiny_terminal() {
    insta::assert_snapshot!("help_80x36", screen(&app((80, 36), "?"), (80, 36)));
    insta::assert_snapshot!("help_40x10", screen(&app((40, 10), "?jj"), (40, 10)));
}

#[test]
fn storage_has_its_own_help() {
    insta::assert_snapshot!("storage_help", screen(&app((80, 36), "i?"), (80, 36)));
}

/// Four databases with different loads, all of which are slow in every twentieth window.
fn databases(seconds: u64) -> Event {
    let fsync = |name: u32, window: u64| {
        if window.is_multiple_of(20) { 700_000_000 } else { 150_000 * 8_u64.pow(name) }
    };
    let database = |name: u32| {
        let windows = (1..=seconds).filter(|window| name > 0 || window.is_multiple_of(4));
        let latencies: Vec<u64> = windows.map(|window| fsync(name, window)).collect();
        flushing(workload("data", &format!("postgres-{name}"), "server"), &latencies)
    };
    Event::Sample(Arc::new(snapshot(seconds, (0..4).map(database).collect())))
}

#[test]
fn a_stall_of_everybody_is_seen_at_a_glance() {
    let mut app = App::new(settings(), Selection::default(), Arc::new(snapshot(0, vec![])), (120, 12));
    for seconds in 1..=70 {
        app.update(databases(seconds));
    }
    press(&mut app, "ia");
    insta::assert_snapshot!("storage_120x12", screen(&app, (120, 12)));
    app.update(Event::Resize { width: 80, height: 12 });
    insta::assert_snapshot!("storage_80x12", screen(&app, (80, 12)));
}

#[test]
fn an_empty_table_says_why() {
    let line = |app: &App| row(screen(app, (80, 24)).buffer(), 2).trim_end().to_owned();
    let mut app = App::new(settings(), Selection::default(), Arc::new(node().0), (80, 24));
    assert_eq!(line(&app), "The first window is not over yet.");
    app.update(Event::Sample(Arc::new(node().0)));
    assert_eq!(line(&app), "Nothing ran: press a for idle workloads.");
    press(&mut app, "i");
    assert_eq!(line(&app), "No storage operation: press a for idle workloads.");
    press(&mut app, "/x");
    assert_eq!(line(&app), "No workload matches the filter: press / then Esc.");
    let mut app = App::new(settings(), Selection::default(), Arc::new(snapshot(1, vec![])), (80, 24));
    app.update(Event::Sample(Arc::new(snapshot(2, vec![]))));
    assert_eq!(line(&app), "There are no workloads.");
}

#[test]
fn emphasis_needs_no_colour() {
    let mut app = app((80, 24), "j");
    for color in [true, false] {
        app.settings.color = color;
        let screen = screen(&app, (80, 24));
        let buffer = screen.buffer();
        assert!(buffer[(0, 1)].modifier.contains(Modifier::BOLD), "head");
        assert!(buffer[(0, 2)].modifier.contains(Modifier::REVERSED), "selection");
        let alarm = row(buffer, 3).chars().position(|c| c == ALARM).expect("70 % is alarming");
        let cell = &buffer[(u16::try_from(alarm).unwrap(), 3)];
        assert!(cell.modifier.contains(Modifier::BOLD));
        assert_eq!(cell.bg == Color::Yellow, color);
        let colored = buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(colored, color);
    }
}

#[test]
fn no_size_is_too_small() {
    for size in [(1, 1), (3, 2), (8, 4), (200, 3), (2, 60)] {
        for keys in ["", "?", "/a-long-filter"] {
            screen(&app(size, keys), size);
        }
    }
}

#[test]
fn a_long_filter_shows_its_end_and_the_cursor() {
    let mut terminal = Terminal::new(TestBackend::new(20, 10)).unwrap();
    terminal.draw(|frame| draw(frame, &app((20, 10), "/0123456789abcdef"))).unwrap();
    assert_eq!(row(terminal.backend().buffer(), 9), "filter: 56789abcdef ");
    terminal.backend_mut().assert_cursor_position((19, 9));
}
