//! The help overlay: every key, and every term of the view, from the tables that define them.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

use crate::cli::format;
use crate::cli::tui::input::{Binding, Command};

/// The minimum width; longer lines and terms make it wider.
const WIDTH: usize = 50;
const KEY_WIDTH: usize = 10;
/// The two borders.
const BORDERS: usize = 2;

/// The lines of an overlay.
#[derive(Debug)]
pub(crate) struct Help(Vec<Line<'static>>);

impl Help {
    /// The keys, and the meaning of the terms on the screen.
    pub(crate) fn new(
        bindings: &[Binding],
        terms: impl Iterator<Item = (&'static str, &'static str)>,
    ) -> Self {
        let keys: Vec<_> = bindings.iter().map(|binding| (binding.keys, binding.help)).collect();
        let terms: Vec<_> = terms.collect();
        let longest = keys.iter().chain(&terms).map(|(term, _)| format::width(term)).max().unwrap_or(0);
        let column = KEY_WIDTH.max(longest + 1);
        let lines = |entries: Vec<_>| entries.into_iter().map(move |(term, text)| entry(term, text, column));
        Self(lines(keys).chain([Line::default()]).chain(lines(terms)).collect())
    }

    /// Draws the overlay, scrolled down by `scrolled` lines.
    pub(crate) fn draw(self, frame: &mut Frame, scrolled: u16) {
        let screen = frame.area();
        let area = self.place(screen);
        let more = scrolled < self.scroll_end((screen.width, screen.height));
        let bottom = if more { " Down: more, other keys: back " } else { " any key: back " };
        let block = Block::bordered().title_top(" Help ").title_bottom(bottom);
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(self.0).block(block).scroll((scrolled, 0)), area);
    }

    /// The scroll position after a command; `None` if the overlay closes, as it does after every command that
    /// does not scroll.
    pub(crate) fn after(&self, command: Option<Command>, scrolled: u16, size: (u16, u16)) -> Option<u16> {
        let last = self.scroll_end(size);
        match command? {
            Command::Up => Some(scrolled.saturating_sub(1)),
            Command::Down => Some((scrolled + 1).min(last)),
            Command::PageUp | Command::Top => Some(0),
            Command::PageDown | Command::Bottom => Some(last),
            _ => None,
        }
    }

    /// The last scroll position on a screen of this size.
    pub(crate) fn scroll_end(&self, (width, height): (u16, u16)) -> u16 {
        // Without the two borders.
        let inner = self.place(Rect::new(0, 0, width, height)).height.saturating_sub(2);
        self.lines().saturating_sub(inner)
    }

    fn place(&self, screen: Rect) -> Rect {
        let longest = self.0.iter().map(Line::width).max().unwrap_or(0);
        let width = u16::try_from(WIDTH.max(longest + 1 + BORDERS)).unwrap_or(u16::MAX);
        screen.centered(Constraint::Length(width), Constraint::Length(self.lines() + 2))
    }

    fn lines(&self) -> u16 {
        u16::try_from(self.0.len()).unwrap_or(u16::MAX - 2)
    }
}

fn entry(term: &'static str, text: &'static str, column: usize) -> Line<'static> {
    let style = Style::new().bold();
    Line::from(vec![Span::raw(" "), Span::styled(format!("{term:column$}"), style), Span::raw(text)])
}
