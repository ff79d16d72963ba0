//! The live view as a state machine: events in, actions out. `view` draws this state.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyEvent;
use ratatui::Frame;

use super::{Page, view};
use crate::cli::history::History;
use crate::cli::presenter::{self, Action, Event, Settings};
use crate::cli::tui::input::{self, Command};
use crate::cli::tui::steps;
use crate::snapshot::Snapshot;

/// The state of the live view.
#[derive(Debug)]
pub(crate) struct App<P: Page> {
    pub(crate) settings: Settings,
    /// The subject of the windows.
    pub(super) of: P::Of,
    /// The scroll position of the help overlay, if it is shown.
    pub(super) help: Option<u16>,
    pub(crate) frozen: bool,
    /// Why there is no newer sample.
    pub(crate) error: Option<String>,
    /// Whether the subject had been deleted at the last sample.
    pub(super) gone: bool,
    /// The last window, or an older one while frozen or after the subject was deleted.
    pub(super) shown: Option<P>,
    /// The first visible one of the scrolling lines.
    pub(super) offset: usize,
    /// The samples up to the last one. While frozen, newer than what is shown.
    history: History,
    size: (u16, u16),
}

impl<P: Page> App<P> {
    pub(crate) fn new(settings: Settings, of: P::Of, first: Arc<Snapshot>, size: (u16, u16)) -> Self {
        let history = History::new(settings.window, first);
        Self::after(settings, of, history, size)
    }

    /// A view whose first windows begin with samples of `history`.
    pub(crate) const fn after(settings: Settings, of: P::Of, history: History, size: (u16, u16)) -> Self {
        Self {
            settings,
            of,
            help: None,
            frozen: false,
            error: None,
            gone: false,
            shown: None,
            offset: 0,
            history,
            size,
        }
    }

    /// The length of the window shown.
    #[cfg(test)]
    pub(crate) fn window(&self) -> Option<Duration> {
        self.shown.as_ref().map(Page::window)
    }

    pub(super) const fn width(&self) -> u16 {
        self.size.0
    }

    pub(super) const fn height(&self) -> u16 {
        self.size.1
    }

    /// The last window of a deleted subject stays on the screen: it shows what led to the deletion.
    fn sample(&mut self, sample: &Arc<Snapshot>) {
        let earlier = self.history.add(sample);
        self.error = None;
        let page = P::of(&earlier, sample, &self.of);
        self.gone = page.as_ref().is_none_or(Page::is_gone);
        let is_news = |page: &P| !page.is_gone() || page.has_numbers() || self.shown.is_none();
        if let Some(page) = page.filter(is_news)
            && !self.frozen
        {
            self.shown = Some(page);
        }
    }

    fn key(&mut self, key: KeyEvent) -> Action {
        if input::is_interrupt(key) {
            return Action::Quit;
        }
        let command = input::command(P::bindings(), key);
        if let Some(scrolled) = self.help {
            self.help = view::help::<P>().after(command, scrolled, self.size);
            return Action::Draw;
        }
        command.map_or(Action::Draw, |command| self.command(command))
    }

    fn command(&mut self, command: Command) -> Action {
        let page = view::page(self).max(1);
        match command {
            Command::Quit => return Action::Quit,
            Command::Longer => return self.set_interval(steps::longer(self.settings.interval)),
            Command::Shorter => return self.set_interval(steps::shorter(self.settings.interval)),
            Command::Help => self.help = Some(0),
            Command::Freeze => self.frozen = !self.frozen,
            Command::Up => self.offset = self.offset.saturating_sub(1),
            Command::Down => self.offset += 1,
            Command::PageUp => self.offset = self.offset.saturating_sub(page),
            Command::PageDown => self.offset += page,
            Command::Top => self.offset = 0,
            Command::Bottom => self.offset = usize::MAX,
            Command::Filter
            | Command::NextSort
            | Command::PreviousSort
            | Command::Reverse
            | Command::Idle
            | Command::Expand
            | Command::Containers
            | Command::Open
            | Command::NextView
            | Command::View(_) => P::command(&mut self.of, command),
        }
        Action::Draw
    }

    fn set_interval(&mut self, interval: Duration) -> Action {
        self.settings.interval = interval;
        Action::SetInterval(interval)
    }

    /// Limits the scroll position so that the screen stays filled.
    fn keep_in_sight(&mut self) {
        let last = view::rows(self).saturating_sub(view::page(self));
        self.offset = self.offset.min(last);
    }
}

impl<P: Page> presenter::App for App<P> {
    fn update(&mut self, event: Event) -> Action {
        let action = match event {
            Event::Key(key) => self.key(key),
            Event::Resize { width, height } => {
                self.size = (width, height);
                Action::Draw
            }
            Event::Sample(sample) => {
                self.sample(&sample);
                Action::Draw
            }
            Event::Failed(error) => {
                self.error = Some(error);
                Action::Draw
            }
        };
        self.keep_in_sight();
        action
    }

    fn draw(&self, frame: &mut Frame) {
        view::draw(frame, self);
    }
}

#[cfg(test)]
mod tests;
