//! The live view as a state machine, event by event.

use crossterm::event::{KeyCode, KeyModifiers};

use super::*;
use crate::cli::command::blame::Blame;
use crate::cli::fixture::live::{press, see};
use crate::cli::fixture::pod::{by_functions, gone, node, window};
use crate::cli::presenter::App as _;

/// Any command will do.
fn app(size: (u16, u16)) -> App<Blame> {
    crate::cli::fixture::live::app(size)
}

fn waited(app: &App<Blame>) -> bool {
    app.shown.as_ref().is_some_and(Blame::has_numbers)
}

#[test]
fn each_sample_ends_a_window() {
    let mut app = app((80, 24));
    assert!(app.shown.is_none());
    see(&mut app, window().1);
    assert!(waited(&app));
    see(&mut app, Snapshot { monotonic_ns: 14_000_000_000, ..window().1 });
    assert!(app.shown.is_some() && !waited(&app), "it did not wait in the second");
}

#[test]
fn what_has_gone_leaves_its_last_picture() {
    let mut app = app((80, 24));
    see(&mut app, window().1);
    let last = app.shown.clone();
    see(&mut app, gone(window().1));
    assert!(app.gone && app.shown == last);
    let mut without = node(16, None, None);
    without.workloads.clear();
    see(&mut app, without);
    assert!(app.gone && app.shown == last);
    see(&mut app, window().0);
    assert!(!app.gone, "a name may come back");
}

#[test]
fn a_frozen_view_stays_and_still_hears_of_the_end() {
    let mut app = app((80, 24));
    see(&mut app, window().1);
    press(&mut app, KeyCode::Char('p'));
    see(&mut app, gone(window().1));
    assert!(app.frozen && app.gone && waited(&app));
    press(&mut app, KeyCode::Char(' '));
    assert!(!app.frozen);
}

#[test]
fn keys_mean_what_they_mean_in_the_tables() {
    let mut app = app((80, 24));
    assert_eq!(press(&mut app, KeyCode::Char('+')), Action::SetInterval(Duration::from_secs(5)));
    assert_eq!(press(&mut app, KeyCode::Char('-')), Action::SetInterval(Duration::from_secs(2)));
    press(&mut app, KeyCode::Char('?'));
    assert_eq!(app.help, Some(0));
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(app.help, None);
    assert_eq!(press(&mut app, KeyCode::Char('s')), Action::Draw);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.update(Event::Key(interrupt)), Action::Quit);
}

#[test]
fn culprits_scroll_as_far_as_there_are_any() {
    // Room for two of the four culprits.
    let mut app = app((80, 16));
    see(&mut app, window().1);
    for (key, offset) in
        [(KeyCode::Down, 1), (KeyCode::End, 2), (KeyCode::Down, 2), (KeyCode::Up, 1), (KeyCode::Home, 0)]
    {
        press(&mut app, key);
        assert_eq!(app.offset, offset, "{key:?}");
    }
    press(&mut app, KeyCode::End);
    app.update(Event::Resize { width: 80, height: 24 });
    assert_eq!(app.offset, 0, "all fit");
}

#[test]
fn a_failure_is_kept_until_the_next_sample() {
    let mut app = app((80, 24));
    app.update(Event::Failed("refused".to_owned()));
    assert_eq!(app.error.as_deref(), Some("refused"));
    see(&mut app, by_functions(window().1));
    assert_eq!(app.error, None);
}
