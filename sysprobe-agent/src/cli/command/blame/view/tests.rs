//! The live screen at several sizes.

use crossterm::event::KeyCode;
use ratatui::style::Color;

use crate::cli::command::blame::Blame;
use crate::cli::fixture::live::{press, row, screen, see};
use crate::cli::fixture::pod::{by_functions, gone, window};
use crate::cli::page::app::App;
use crate::cli::presenter::{App as _, Event};

mod plain;

fn app(size: (u16, u16)) -> App<Blame> {
    crate::cli::fixture::live::app(size)
}

fn shown(size: (u16, u16)) -> App<Blame> {
    crate::cli::fixture::live::shown(size)
}

#[test]
fn an_ordinary_and_a_large_terminal() {
    insta::assert_snapshot!("80x24", screen(&shown((80, 24)), (80, 24)));
    insta::assert_snapshot!("120x30", screen(&shown((120, 30)), (120, 30)));
}

#[test]
fn a_low_terminal_says_which_culprits_it_shows() {
    let mut app = shown((80, 16));
    press(&mut app, KeyCode::Down);
    insta::assert_snapshot!("80x16", screen(&app, (80, 16)));
}

#[test]
fn what_has_gone_and_an_agent_that_fails() {
    let mut app = shown((80, 24));
    see(&mut app, gone(window().1));
    app.update(Event::Failed("no agent answers".to_owned()));
    press(&mut app, KeyCode::Char('p'));
    insta::assert_snapshot!("gone", screen(&app, (80, 24)));
}

#[test]
fn help_names_every_cause() {
    let mut app = shown((80, 30));
    press(&mut app, KeyCode::Char('?'));
    insta::assert_snapshot!("help", screen(&app, (80, 30)));
}

#[test]
fn an_empty_screen_says_why() {
    let line = |app: &App<Blame>| row(screen(app, (80, 24)).buffer(), 1).trim_end().to_owned();
    let mut first = app((80, 24));
    assert_eq!(line(&first), "The first window is not over yet.");
    see(&mut first, window().0);
    assert_eq!(line(&first), "It did not wait for a CPU in this window.");
    let mut blind = app((80, 24));
    see(&mut blind, by_functions(window().1));
    let below = row(screen(&blind, (80, 24)).buffer(), 2);
    assert_eq!(below.trim_end(), "What for is not known: fentry hooks cannot tell, tp_btf and raw_tp can.");
}

#[test]
fn colours_are_set_in_front_and_behind_or_not_at_all() {
    let mut app = shown((80, 24));
    for color in [true, false] {
        app.settings.color = color;
        let screen = screen(&app, (80, 24));
        let cells = &screen.buffer().content;
        let is_colored = |colour| colour != Color::Reset;
        assert!(cells.iter().all(|cell| is_colored(cell.fg) == is_colored(cell.bg)));
        assert_eq!(cells.iter().any(|cell| is_colored(cell.bg)), color);
    }
}

#[test]
fn no_size_is_too_small() {
    for size in [(1, 1), (3, 2), (8, 4), (30, 12), (200, 3), (2, 60)] {
        for key in ['x', '?', 'j', 'G'] {
            let mut app = shown(size);
            press(&mut app, KeyCode::Char(key));
            screen(&app, size);
        }
    }
}
