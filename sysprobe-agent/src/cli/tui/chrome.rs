//! The frame of every live view: the line of context above, notices, the line of key hints below. Emphasis is
//! bold, reverse, or black on yellow, which stay readable on light and dark backgrounds and with every kind
//! of colour blindness. It always comes with a sign in the text.

use ratatui::{
    style::{Color, Style},
    text::{Line, Span},
};

use crate::cli::format;
use crate::cli::tui::input::Binding;
use crate::snapshot::{DomainState, Snapshot};

pub(crate) const GAP: &str = "  ";

/// The command, then the parts in order of importance; parts that do not fit are left out.
pub(crate) fn context_line(command: &str, frozen: bool, parts: Vec<String>, width: usize) -> Line<'static> {
    let frozen = frozen.then(|| Span::styled(" FROZEN ", Style::new().bold().reversed()));
    let mut spans = vec![Span::styled(command.to_owned(), Style::new().bold())];
    spans.extend(frozen.into_iter().flat_map(|span| [Span::raw(GAP), span]));
    let mut used: usize = spans.iter().map(Span::width).sum();
    for part in parts {
        let needed = GAP.len() + format::width(&part);
        if used + needed <= width {
            spans.push(Span::raw(format!("{GAP}{part}")));
            used += needed;
        }
    }
    Line::from(spans)
}

/// The style of a warning; its text is recognizable without the style.
pub(crate) fn warning(color: bool) -> Style {
    if color { Style::new().fg(Color::Black).bg(Color::Yellow) } else { Style::new().bold() }
}

/// The reason why there are no newer numbers.
pub(crate) fn failed(error: &str) -> String {
    format!("no newer numbers, retrying: {}", format::clean(error))
}

/// The notice that a domain is off, and why.
pub(crate) fn off(domain: &DomainState) -> String {
    format!("{} is off: {}", format::clean(&domain.name), format::clean(&domain.reason))
}

/// The notice that only a sample of the packets is followed, if so.
pub(crate) fn sampled(snapshot: &Snapshot) -> Option<String> {
    let ratio = snapshot.agent.rx_followed_ratio.filter(|ratio| *ratio > 0.0 && *ratio < 1.0)?;
    Some(format!("1 of {:.0} packets followed", ratio.recip()))
}

/// The hints that fit, from the first on.
pub(crate) fn footer(bindings: &[Binding], width: usize) -> Line<'static> {
    let mut text = String::new();
    for hint in bindings.iter().filter_map(|binding| binding.hint) {
        let gap = if text.is_empty() { "" } else { GAP };
        if text.len() + gap.len() + hint.len() > width {
            break;
        }
        text.push_str(gap);
        text.push_str(hint);
    }
    Line::styled(format::pad_right(&text, width), Style::new().reversed())
}
