//! The help overlay: every key and every column of the table, from the tables that define them.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

use crate::top::{input::BINDINGS, topic::Topic};

const WIDTH: u16 = 50;
const KEY_WIDTH: usize = 10;

/// Draws the overlay, scrolled down by so many lines.
pub(super) fn draw(frame: &mut Frame, topic: Topic, scrolled: u16) {
    let screen = frame.area();
    let area = place(topic, screen);
    let more = scrolled < scroll_end(topic, (screen.width, screen.height));
    let bottom = if more { " Down: more, other keys: back " } else { " any key: back " };
    let block = Block::bordered().title_top(" Help ").title_bottom(bottom);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines(topic)).block(block).scroll((scrolled, 0)), area);
}

/// By how many lines the overlay can be scrolled down on a screen of this size.
pub(in crate::top) fn scroll_end(topic: Topic, (width, height): (u16, u16)) -> u16 {
    // Without the two borders.
    let inner = place(topic, Rect::new(0, 0, width, height)).height.saturating_sub(2);
    line_count(topic).saturating_sub(inner)
}

fn place(topic: Topic, screen: Rect) -> Rect {
    screen.centered(Constraint::Length(WIDTH), Constraint::Length(line_count(topic) + 2))
}

fn line_count(topic: Topic) -> u16 {
    u16::try_from(lines(topic).len()).unwrap_or(u16::MAX)
}

fn lines(topic: Topic) -> Vec<Line<'static>> {
    let keys = BINDINGS.iter().map(|binding| entry(binding.keys, binding.help));
    let columns = topic.columns().iter().map(|column| entry(column.title, column.help));
    keys.chain([Line::default()]).chain(columns).collect()
}

fn entry(term: &'static str, text: &'static str) -> Line<'static> {
    let style = Style::new().bold();
    Line::from(vec![Span::raw(" "), Span::styled(format!("{term:KEY_WIDTH$}"), style), Span::raw(text)])
}
