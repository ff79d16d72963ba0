//! The live table as a state machine: events in, actions out. `view` draws this state.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crossterm::event::{KeyCode, KeyEvent};

use ratatui::Frame;

use super::{
    keys::BINDINGS,
    open::Opened,
    selection::{self, Selection},
    view,
    views::View,
};
use crate::cli::history::History;
use crate::cli::page;
use crate::cli::presenter::{self, Action, App as _, Event, Settings};
use crate::cli::rows::{Row, SortKey};
use crate::cli::target::Target;
use crate::cli::tui::input::{self, Command};
use crate::cli::tui::steps;
use crate::snapshot::{DomainState, Snapshot, Workload, WorkloadKind};

mod trends;

use trends::Trends;

/// The part of the view that gets the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Table,
    Filter,
    /// The help overlay, with its scroll position.
    Help(u16),
}

/// The state of the live table.
#[derive(Debug)]
pub(crate) struct App {
    pub(super) settings: Settings,
    pub(super) selection: Selection,
    pub(super) focus: Focus,
    pub(super) frozen: bool,
    /// Why there is no newer sample.
    pub(super) error: Option<String>,
    pub(super) rows: Vec<Row>,
    /// The first row on the screen.
    pub(super) offset: usize,
    cursor: Option<Cursor>,
    /// The samples up to the last one. While frozen, newer than what is shown.
    history: History,
    /// The windows up to the last sample. While frozen, newer than what is shown.
    trends: Arc<Trends>,
    shown: Option<Window>,
    /// The sort keys of the other tables that were shown before.
    sorts: HashMap<View, SortKey>,
    size: (u16, u16),
    /// The page that is shown in place of the table.
    opened: Option<page::app::App<Opened>>,
}

/// The input of the rows.
#[derive(Debug)]
struct Window {
    earlier: Arc<Snapshot>,
    later: Arc<Snapshot>,
    /// The samples before the last one.
    before: History,
    trends: Arc<Trends>,
}

/// The selected row: the workload is selected, the index is its last position.
#[derive(Debug)]
struct Cursor {
    workload: Workload,
    index: usize,
}

impl App {
    pub(super) fn new(
        settings: Settings,
        selection: Selection,
        first: Arc<Snapshot>,
        (width, height): (u16, u16),
    ) -> Self {
        let history = History::new(settings.window, first);
        Self {
            settings,
            selection,
            focus: Focus::Table,
            frozen: false,
            error: None,
            rows: Vec::new(),
            offset: 0,
            cursor: None,
            history,
            trends: Arc::default(),
            shown: None,
            sorts: HashMap::new(),
            size: (width, height),
            opened: None,
        }
    }

    /// The index of the selected row, if one is selected.
    pub(super) fn selected(&self) -> Option<usize> {
        self.cursor.as_ref().map(|cursor| cursor.index)
    }

    /// The length of the window shown; `None` until there are two samples.
    pub(super) fn window(&self) -> Option<Duration> {
        self.shown.as_ref().map(|shown| shown.later.window_since(&shown.earlier))
    }

    /// Number of possible rows, shown or not: pods or containers, and workloads outside of pods.
    pub(super) fn total(&self) -> usize {
        selection::total(self.current(), &self.selection)
    }

    /// The reason why no pod matches the selection.
    pub(super) fn no_pods(&self) -> Option<String> {
        selection::no_pods(self.current(), &self.selection)
    }

    pub(super) fn domains_off(&self) -> impl Iterator<Item = &DomainState> {
        self.current().domains.iter().filter(|domain| !domain.up)
    }

    pub(super) fn sampled(&self) -> Option<String> {
        self.selection.view.sampled(self.current())
    }

    fn current(&self) -> &Snapshot {
        self.shown.as_ref().map_or(self.history.newest(), |shown| &shown.later)
    }

    fn sample(&mut self, sample: Arc<Snapshot>) -> Action {
        let previous = Arc::clone(self.history.newest());
        let before = self.history.clone();
        let (earlier, later) = (self.history.add(&sample), sample);
        if !self.frozen {
            // The shown window is replaced anyway. Dropping its reference first saves a copy of the trends.
            self.shown = None;
        }
        // From sample to sample, however long the shown windows are: overlapping ones would repeat the same
        // numbers.
        Arc::make_mut(&mut self.trends).record(&previous, &later);
        self.error = None;
        if !self.frozen {
            self.shown = Some(Window { earlier, later, before, trends: Arc::clone(&self.trends) });
            self.select_rows();
        }
        Action::Draw
    }

    /// Rebuilds the rows and finds the selected workload again; if it is gone, its position stays selected.
    fn select_rows(&mut self) {
        let Some(Window { earlier, later, trends, .. }) = &self.shown else { return };
        self.rows = selection::rows(earlier, later, &self.selection);
        // A pod's own cgroup has the same name as the whole pod, to which the trends belong.
        let is_whole = |row: &&mut Row| self.selection.pods || row.kind != WorkloadKind::Pod;
        for row in self.rows.iter_mut().filter(is_whole) {
            row.trend = trends.of(&row.workload, self.selection.view.trend());
            row.unusual = trends.unusual(&row.workload);
        }
        let Some(cursor) = &self.cursor else { return };
        let found = self.rows.iter().position(|row| row.workload == cursor.workload);
        self.select(found.unwrap_or(cursor.index));
    }

    fn select(&mut self, index: usize) {
        let index = index.min(self.rows.len().saturating_sub(1));
        self.cursor = self.rows.get(index).map(|row| Cursor { workload: row.workload.clone(), index });
    }

    fn page(&self) -> usize {
        view::page(self, self.size.1).max(1)
    }

    fn keep_in_sight(&mut self) {
        let page = self.page();
        self.offset = self.offset.min(self.rows.len().saturating_sub(page));
        match self.selected() {
            Some(index) if index < self.offset => self.offset = index,
            Some(index) if index >= self.offset + page => self.offset = index + 1 - page,
            _ => {}
        }
    }

    fn key(&mut self, key: KeyEvent) -> Action {
        if input::is_interrupt(key) {
            return Action::Quit;
        }
        match self.focus {
            Focus::Table => {
                input::command(&BINDINGS, key).map_or(Action::Draw, |command| self.command(command))
            }
            Focus::Filter => self.filter_key(key),
            Focus::Help(scrolled) => self.help_key(key, scrolled),
        }
    }

    fn command(&mut self, command: Command) -> Action {
        match command {
            Command::Quit => return Action::Quit,
            Command::Longer => return self.set_interval(steps::longer(self.settings.interval)),
            Command::Shorter => return self.set_interval(steps::shorter(self.settings.interval)),
            Command::Help => self.focus = Focus::Help(0),
            Command::Filter => self.focus = Focus::Filter,
            Command::NextSort => {
                self.reselect(|selection| selection.sort = next_sort(selection, 1));
            }
            Command::PreviousSort => {
                self.reselect(|selection| selection.sort = next_sort(selection, -1));
            }
            Command::Reverse => self.reselect(|selection| selection.reverse = !selection.reverse),
            Command::Expand => self.expand(),
            Command::Open => self.open(),
            Command::Containers => {
                self.reselect(|selection| selection.pods = !selection.pods);
            }
            Command::Idle => self.reselect(|selection| selection.all = !selection.all),
            Command::NextView => self.show_view(self.selection.view.next()),
            Command::View(at) => self.show_view(View::ALL[at % View::ALL.len()]),
            Command::Freeze => self.frozen = !self.frozen,
            Command::Up | Command::Down | Command::PageUp | Command::PageDown => self.step(command),
            Command::Bottom => self.select(usize::MAX),
            Command::Top => {
                self.cursor = None;
                self.offset = 0;
            }
        }
        Action::Draw
    }

    /// The first step selects the row at that edge of the screen.
    fn step(&mut self, command: Command) {
        let page = self.page();
        let index = match (self.selected(), command) {
            (None, Command::Up | Command::Down) => self.offset,
            (None, Command::PageUp) => self.offset.saturating_sub(page),
            (None, _) => self.offset + page,
            (Some(index), Command::Up) => index.saturating_sub(1),
            (Some(index), Command::Down) => index + 1,
            (Some(index), Command::PageUp) => index.saturating_sub(page),
            (Some(index), _) => index + page,
        };
        self.select(index);
    }

    /// Opens the selected row, or the first one.
    fn open(&mut self) {
        let Some(Window { later, before, .. }) = &self.shown else { return };
        let Some(row) = self.rows.get(self.selected().unwrap_or(self.offset)) else { return };
        let target = Target::of(&row.workload);
        let mut opened = page::app::App::after(self.settings.clone(), target, before.clone(), self.size);
        opened.update(Event::Sample(Arc::clone(later)));
        (opened.frozen, opened.error) = (self.frozen, self.error.clone());
        self.opened = Some(opened);
    }

    /// The opened page gets the keys, while the table is kept up to date behind it.
    fn update_opened(&mut self, event: &Event) -> Option<Action> {
        let action = self.opened.as_mut()?.update(event.clone());
        match (event, action) {
            (Event::Key(key), Action::Quit) if !input::is_interrupt(*key) => self.opened = None,
            (Event::Key(_), Action::SetInterval(interval)) => self.settings.interval = interval,
            _ => {}
        }
        let Event::Key(_) = event else { return None };
        Some(if action == Action::Quit && self.opened.is_none() { Action::Draw } else { action })
    }

    /// Shows or hides the containers of the pod that the selected row, or the first row, belongs to.
    fn expand(&mut self) {
        let index = self.selected().unwrap_or(self.offset);
        let Some(pod) = self.rows.get(index).and_then(|row| row.workload.whole_pod()) else { return };
        self.cursor = Some(Cursor { workload: pod.clone(), index });
        self.reselect(|selection| {
            if !selection.expanded.remove(&pod) {
                selection.expanded.insert(pod);
            }
        });
    }

    /// Each table keeps its own sort key.
    fn show_view(&mut self, view: View) {
        self.sorts.insert(self.selection.view, self.selection.sort);
        let sort = self.sorts.get(&view).copied().unwrap_or(view.default_sort());
        self.reselect(|selection| (selection.view, selection.sort) = (view, sort));
    }

    fn reselect(&mut self, change: impl FnOnce(&mut Selection)) {
        change(&mut self.selection);
        self.select_rows();
    }

    fn set_interval(&mut self, interval: Duration) -> Action {
        self.settings.interval = interval;
        Action::SetInterval(interval)
    }

    fn filter_key(&mut self, key: KeyEvent) -> Action {
        match key.code {
            KeyCode::Enter => self.focus = Focus::Table,
            KeyCode::Esc => {
                self.focus = Focus::Table;
                self.reselect(|selection| selection.filter.clear());
            }
            KeyCode::Backspace => self.reselect(|selection| {
                selection.filter.pop();
            }),
            KeyCode::Up => self.step(Command::Up),
            KeyCode::Down => self.step(Command::Down),
            _ => {
                if let Some(c) = input::typed(key) {
                    self.reselect(|selection| selection.filter.push(c));
                }
            }
        }
        Action::Draw
    }

    fn help_key(&mut self, key: KeyEvent, scrolled: u16) -> Action {
        let command = input::command(&BINDINGS, key);
        let scrolled = view::help(self.selection.view).after(command, scrolled, self.size);
        self.focus = scrolled.map_or(Focus::Table, Focus::Help);
        Action::Draw
    }
}

impl presenter::App for App {
    fn update(&mut self, event: Event) -> Action {
        if let Some(action) = self.update_opened(&event) {
            return action;
        }
        let action = match event {
            Event::Key(key) => self.key(key),
            Event::Resize { width, height } => {
                self.size = (width, height);
                Action::Draw
            }
            Event::Sample(sample) => self.sample(sample),
            Event::Failed(error) => {
                self.error = Some(error);
                Action::Draw
            }
        };
        self.keep_in_sight();
        action
    }

    fn draw(&self, frame: &mut Frame) {
        match &self.opened {
            Some(opened) => opened.draw(frame),
            None => view::draw(frame, self),
        }
    }
}

/// The table's sort key `by` positions further, wrapping around.
fn next_sort(selection: &Selection, by: isize) -> SortKey {
    steps::further(&selection.view.sort_keys(), selection.sort, by)
}

#[cfg(test)]
mod tests;
