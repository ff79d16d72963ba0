//! The help overlay: every key and every column, from the tables that define them.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

use crate::top::{columns::COLUMNS, input::BINDINGS};

const WIDTH: u16 = 50;
const KEY_WIDTH: usize = 9;

/// Draws the overlay, scrolled down by so many lines.
pub(super) fn draw(frame: &mut Frame, scrolled: u16) {
    let screen = frame.area();
    let area = place(screen);
    let more = scrolled < scroll_end((screen.width, screen.height));
    let bottom = if more { " Down: more, other keys: back " } else { " any key: back " };
    let block = Block::bordered().title_top(" Help ").title_bottom(bottom);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines()).block(block).scroll((scrolled, 0)), area);
}

/// By how many lines the overlay can be scrolled down on a screen of this size.
pub(in crate::top) fn scroll_end((width, height): (u16, u16)) -> u16 {
    // Without the two borders.
    let inner = place(Rect::new(0, 0, width, height)).height.saturating_sub(2);
    line_count().saturating_sub(inner)
}

fn place(screen: Rect) -> Rect {
    screen.centered(Constraint::Length(WIDTH), Constraint::Length(line_count() + 2))
}

fn line_count() -> u16 {
    u16::try_from(lines().len()).unwrap_or(u16::MAX)
}

fn lines() -> Vec<Line<'static>> {
    let keys = BINDINGS.iter().map(|binding| entry(binding.keys, binding.help));
    let columns = COLUMNS.iter().map(|column| entry(column.title, column.help));
    keys.chain([Line::default()]).chain(columns).collect()
}

fn entry(term: &'static str, text: &'static str) -> Line<'static> {
    let style = Style::new().bold();
    Line::from(vec![Span::raw(" "), Span::styled(format!("{term:KEY_WIDTH$}"), style), Span::raw(text)])
}
