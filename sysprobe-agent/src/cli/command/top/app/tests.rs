//! The live table as a state machine, key by key.

use crossterm::event::KeyModifiers;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::cli::args::{LONGEST_INTERVAL, SHORTEST_INTERVAL};
use crate::cli::fixture::{flushing, node, sample, sched, snapshot, workload};
use crate::cli::rows::SortKey;

fn settings() -> Settings {
    Settings {
        interval: Duration::from_secs(2),
        window: None,
        wide: false,
        color: true,
        source: "test".to_owned(),
    }
}

fn app() -> App {
    let (earlier, later) = node();
    let mut app = App::new(settings(), Selection::default(), Arc::new(earlier), (80, 24));
    app.update(Event::Sample(Arc::new(later)));
    app
}

/// A snapshot with workloads `w00`, `w01` ..., the busiest first.
fn crowd(count: u64, seconds: u64) -> Arc<Snapshot> {
    let busy = |index| (count - index) * seconds * 1_000;
    let one =
        |index| sample(workload("", "", &format!("w{index:02}")), Some(sched(busy(index), &[], 1, 0)), None);
    Arc::new(snapshot(seconds, (0..count).map(one).collect()))
}

fn crowded(height: u16) -> App {
    let mut app = App::new(settings(), Selection::default(), crowd(50, 1), (80, height));
    app.update(Event::Sample(crowd(50, 2)));
    app
}

fn press(app: &mut App, code: KeyCode) -> Action {
    app.update(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn type_in(app: &mut App, text: &str) {
    for c in text.chars() {
        press(app, KeyCode::Char(c));
    }
}

fn selected_name(app: &App) -> Option<&str> {
    app.selected().map(|index| app.rows[index].workload.container.as_str())
}

#[test]
fn quit_keys_quit() {
    assert_eq!(press(&mut app(), KeyCode::Char('q')), Action::Quit);
    assert_eq!(press(&mut app(), KeyCode::Esc), Action::Quit);
    for focus in [Focus::Table, Focus::Filter, Focus::Help(0)] {
        let mut app = app();
        app.focus = focus;
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.update(Event::Key(interrupt)), Action::Quit);
    }
}

#[test]
fn the_first_sample_alone_shows_nothing() {
    let app = App::new(settings(), Selection::default(), Arc::new(node().0), (80, 24));
    assert!(app.rows.is_empty());
    assert_eq!((app.window(), app.total()), (None, 8));
}

#[test]
fn sort_keys_go_round_in_both_directions() {
    let mut app = app();
    press(&mut app, KeyCode::Char('s'));
    assert_eq!(app.selection.sort, SortKey::Throttled);
    press(&mut app, KeyCode::Char('<'));
    press(&mut app, KeyCode::Char('S'));
    assert_eq!(app.selection.sort, SortKey::Name);
    press(&mut app, KeyCode::Char('>'));
    assert_eq!(app.selection.sort, SortKey::Cpu);
    let first = app.rows[0].clone();
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(app.rows.last(), Some(&first));
}

#[test]
fn each_table_keeps_its_order() {
    let mut app = app();
    type_in(&mut app, "si");
    assert_eq!((app.selection.view, app.selection.sort), (View::Io, SortKey::Fsync99));
    assert_eq!(app.rows.len(), 4);
    type_in(&mut app, "s");
    type_in(&mut app, "1");
    assert_eq!((app.selection.view, app.selection.sort), (View::Cpu, SortKey::Throttled));
    assert_eq!(app.rows.len(), 6);
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.selection.sort, SortKey::Disk);
    press(&mut app, KeyCode::Tab);
    assert_eq!((app.selection.view, app.selection.sort), (View::Net, SortKey::Srtt99));
}

/// A sample of a workload that calls fsync once a second, for a millisecond each time.
fn flushed(seconds: u64) -> Event {
    let calls = vec![1_000_000; usize::try_from(seconds).expect("it fits")];
    Event::Sample(Arc::new(snapshot(seconds, vec![flushing(workload("", "", "db"), &calls)])))
}

#[test]
fn trends_grow_while_frozen_and_show_afterwards() {
    let trend = |app: &App| app.rows[0].trend.len();
    let mut app = App::new(settings(), Selection::default(), Arc::new(snapshot(0, vec![])), (80, 24));
    for seconds in 1..4 {
        app.update(flushed(seconds));
    }
    assert_eq!(trend(&app), 3);
    press(&mut app, KeyCode::Char('p'));
    app.update(flushed(4));
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(trend(&app), 3, "what is frozen stays, in another order too");
    press(&mut app, KeyCode::Char('p'));
    app.update(flushed(5));
    assert_eq!(trend(&app), 5);
}

#[test]
fn the_filter_works_as_it_is_typed() {
    let mut app = app();
    type_in(&mut app, "/Shopq");
    assert_eq!(app.rows.len(), 0, "q is text here");
    press(&mut app, KeyCode::Backspace);
    assert_eq!(app.rows.len(), 2);
    press(&mut app, KeyCode::Enter);
    assert_eq!((app.focus, app.rows.len()), (Focus::Table, 2));
    type_in(&mut app, "/");
    press(&mut app, KeyCode::Esc);
    assert_eq!((app.focus, app.rows.len()), (Focus::Table, 6));
}

#[test]
fn idle_workloads_come_and_go() {
    let mut app = app();
    press(&mut app, KeyCode::Char('a'));
    assert_eq!(app.rows.len(), 8);
    press(&mut app, KeyCode::Char('a'));
    assert_eq!(app.rows.len(), 6);
}

#[test]
fn the_selection_stays_with_its_workload() {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char('j'));
    assert_eq!((app.selected(), selected_name(&app)), (Some(1), Some("server")));
    press(&mut app, KeyCode::Char('r'));
    assert_eq!((app.selected(), selected_name(&app)), (Some(4), Some("server")));
    press(&mut app, KeyCode::Home);
    assert_eq!(app.selected(), None);
}

#[test]
fn when_the_selected_workload_goes_its_place_stays() {
    let mut app = crowded(24);
    press(&mut app, KeyCode::End);
    assert_eq!(selected_name(&app), Some("w49"));
    app.update(Event::Sample(crowd(10, 3)));
    assert_eq!(selected_name(&app), Some("w09"));
    app.update(Event::Sample(crowd(0, 4)));
    assert_eq!((app.selected(), app.offset), (None, 0));
}

#[test]
fn paging_keeps_the_selection_in_sight() {
    let mut app = crowded(13);
    press(&mut app, KeyCode::PageDown);
    assert_eq!((app.selected(), app.offset), (Some(10), 1));
    press(&mut app, KeyCode::PageDown);
    assert_eq!((app.selected(), app.offset), (Some(20), 11));
    press(&mut app, KeyCode::Up);
    assert_eq!((app.selected(), app.offset), (Some(19), 11));
    press(&mut app, KeyCode::PageUp);
    assert_eq!((app.selected(), app.offset), (Some(9), 9));
    press(&mut app, KeyCode::End);
    assert_eq!((app.selected(), app.offset), (Some(49), 40));
    app.update(Event::Resize { width: 80, height: 33 });
    assert_eq!(app.offset, 20);
    app.update(Event::Resize { width: 1, height: 1 });
    assert_eq!(app.offset, 49);
}

#[test]
fn frozen_rows_stay_and_the_next_window_is_the_newest() {
    let mut app = crowded(24);
    press(&mut app, KeyCode::Char(' '));
    for seconds in 3..6 {
        app.update(Event::Sample(crowd(7, seconds)));
    }
    assert_eq!((app.rows.len(), app.total()), (50, 50));
    type_in(&mut app, "/w4");
    assert_eq!(app.rows.len(), 10, "what is frozen can still be filtered");
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('p'));
    app.update(Event::Sample(crowd(7, 6)));
    assert_eq!((app.rows.len(), app.window()), (7, Some(Duration::from_secs(1))));
}

#[test]
fn the_interval_goes_in_steps_within_its_limits() {
    let mut app = app();
    assert_eq!(press(&mut app, KeyCode::Char('+')), Action::SetInterval(Duration::from_secs(5)));
    app.settings.interval = Duration::from_millis(1_700);
    assert_eq!(press(&mut app, KeyCode::Char('-')), Action::SetInterval(Duration::from_secs(1)));
    for _ in 0..20 {
        press(&mut app, KeyCode::Char('-'));
    }
    assert_eq!(app.settings.interval, SHORTEST_INTERVAL);
    for _ in 0..20 {
        press(&mut app, KeyCode::Char('='));
    }
    assert_eq!(app.settings.interval, LONGEST_INTERVAL);
}

#[test]
fn a_failure_is_shown_until_the_next_sample() {
    let mut app = crowded(13);
    press(&mut app, KeyCode::End);
    app.update(Event::Failed("the agent has gone".to_owned()));
    assert_eq!(app.error.as_deref(), Some("the agent has gone"));
    assert_eq!(app.rows.len(), 50, "the last numbers stay");
    assert_eq!(app.offset, 41, "the notice takes a line");
    app.update(Event::Sample(crowd(50, 3)));
    assert_eq!(app.error, None);
}

#[test]
fn help_scrolls_and_any_other_key_closes_it() {
    let mut app = app();
    app.update(Event::Resize { width: 40, height: 10 });
    press(&mut app, KeyCode::Char('?'));
    press(&mut app, KeyCode::Down);
    assert_eq!(app.focus, Focus::Help(1));
    press(&mut app, KeyCode::End);
    assert_eq!(app.focus, Focus::Help(view::help(View::Cpu).scroll_end((40, 10))));
    press(&mut app, KeyCode::PageUp);
    press(&mut app, KeyCode::Up);
    assert_eq!(app.focus, Focus::Help(0));
    assert_eq!(press(&mut app, KeyCode::Char('q')), Action::Draw);
    assert_eq!(app.focus, Focus::Table);
}

fn of_pods() -> App {
    let (earlier, later) = node();
    let selection = Selection { pods: true, ..Selection::default() };
    let mut app = App::new(settings(), selection, Arc::new(earlier), (80, 24));
    app.update(Event::Sample(Arc::new(later)));
    app
}

fn screen(app: &App) -> String {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
    terminal.draw(|frame| app.draw(frame)).expect("drawn");
    terminal.backend().to_string()
}

#[test]
fn a_pod_is_expanded_and_folded_where_it_stands() {
    let mut app = of_pods();
    assert_eq!(app.rows.len(), 5);
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(app.rows.len(), 5, "nothing is selected");
    while app.selected().is_none_or(|at| app.rows[at].workload.namespace != "shop") {
        press(&mut app, KeyCode::Down);
    }
    press(&mut app, KeyCode::Right);
    assert_eq!(app.rows.len(), 7);
    press(&mut app, KeyCode::Down);
    assert_eq!(app.rows[app.selected().expect("one")].workload.container, "server");
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(app.rows.len(), 5, "its container folds it, too");
    press(&mut app, KeyCode::Char('X'));
    assert_eq!(app.rows.len(), 6);
}

#[test]
fn what_is_opened_has_everything_on_a_page_and_leads_back() {
    let mut app = of_pods();
    type_in(&mut app, "/checkout");
    press(&mut app, KeyCode::Enter);
    press(&mut app, KeyCode::Enter);
    insta::assert_snapshot!(screen(&app));
    let (_, later) = node();
    let rows = app.rows.len();
    app.update(Event::Sample(Arc::new(later)));
    press(&mut app, KeyCode::Char('+'));
    assert_eq!(app.settings.interval, Duration::from_secs(5), "the interval is the same behind it");
    assert_eq!(press(&mut app, KeyCode::Char('q')), Action::Draw);
    assert!(app.opened.is_none() && rows == 1);
    press(&mut app, KeyCode::Enter);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.update(Event::Key(interrupt)), Action::Quit);
}

#[test]
fn a_window_may_be_longer_than_the_interval() {
    let settings = Settings { window: Some(Duration::from_secs(4)), ..settings() };
    let mut app = App::new(settings, Selection::default(), crowd(1, 0), (80, 24));
    let lengths = (1..=4).map(|step| {
        app.update(Event::Sample(crowd(1, 2 * step)));
        app.window().map(|window| window.as_secs())
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [2, 4, 4, 4].map(Some));
}

#[test]
fn a_pod_that_is_opened_has_the_tables_window() {
    let settings = Settings { window: Some(Duration::from_secs(4)), ..settings() };
    let mut app = App::new(settings, Selection::default(), crowd(1, 0), (80, 24));
    for step in 1..=4 {
        app.update(Event::Sample(crowd(1, 2 * step)));
    }
    press(&mut app, KeyCode::Enter);
    for step in 5..=7 {
        let opened = app.opened.as_ref().expect("it is open");
        assert_eq!(opened.window(), Some(Duration::from_secs(4)), "step {step}");
        app.update(Event::Sample(crowd(1, 2 * step)));
    }
}
