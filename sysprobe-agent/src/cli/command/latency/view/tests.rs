//! The live screen at several sizes.

use crossterm::event::KeyCode;

use crate::cli::command::latency::Latency;
use crate::cli::fixture::live::{press, row, screen, see};
use crate::cli::fixture::pod::{by_functions, gone, node, window};
use crate::cli::fixture::without;
use crate::cli::page::app::App;

mod plain;

fn app(size: (u16, u16)) -> App<Latency> {
    crate::cli::fixture::live::app(size)
}

fn shown(size: (u16, u16)) -> App<Latency> {
    crate::cli::fixture::live::shown(size)
}

#[test]
fn an_ordinary_and_a_large_terminal() {
    insta::assert_snapshot!("80x24", screen(&shown((80, 24)), (80, 24)));
    insta::assert_snapshot!("120x30", screen(&shown((120, 30)), (120, 30)));
}

#[test]
fn what_does_not_fit_scrolls() {
    let mut app = shown((80, 16));
    press(&mut app, KeyCode::End);
    insta::assert_snapshot!("80x16", screen(&app, (80, 16)));
}

#[test]
fn what_has_gone_leaves_its_last_picture() {
    let mut app = shown((80, 12));
    see(&mut app, gone(window().1));
    insta::assert_snapshot!("gone", screen(&app, (80, 12)));
}

#[test]
fn help_explains_every_stage() {
    let mut app = shown((80, 48));
    press(&mut app, KeyCode::Char('?'));
    insta::assert_snapshot!("help", screen(&app, (80, 48)));
}

#[test]
fn an_empty_screen_says_why() {
    let line = |app: &App<Latency>| row(screen(app, (80, 24)).buffer(), 1).trim_end().to_owned();
    let mut app = app((80, 24));
    assert_eq!(line(&app), "The first window is not over yet.");
    see(&mut app, node(12, None, None));
    assert_eq!(line(&app), "Nothing that it received was read in this window.");
    see(&mut app, without(window().1, "rxpath", "this kernel has no BTF"));
    assert_eq!(line(&app), "rxpath is off: this kernel has no BTF");
}

#[test]
fn a_share_of_the_packets_is_told() {
    let told = |ratio| {
        let (earlier, mut later) = window();
        later.agent.rx_followed_ratio = ratio;
        let mut app = app((80, 24));
        see(&mut app, earlier);
        see(&mut app, later);
        row(screen(&app, (80, 24)).buffer(), 1).contains("(1 of 64 packets followed)")
    };
    assert_eq!([None, Some(1.0), Some(1.0 / 64.0)].map(told), [false, false, true]);
}

#[test]
fn without_causes_the_stages_remain() {
    let mut app = app((80, 30));
    see(&mut app, by_functions(window().1));
    let screen = screen(&app, (80, 30));
    let lines: Vec<_> = (0..30).map(|y| row(screen.buffer(), y).trim_end().to_owned()).collect();
    assert!(lines.iter().any(|line| line.starts_with("C wakeup_to_run ")), "{lines:?}");
    let remark = "What for is not known: fentry hooks cannot tell, tp_btf and raw_tp can.";
    assert!(lines.iter().any(|line| line == remark), "{lines:?}");
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
