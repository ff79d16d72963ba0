//! Key bindings. Each view has one table of them: its key handling, footer and help overlay all come from it.
//! Bindings that are the same everywhere are defined here.

use crossterm::event::{Event as Terminal, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::cli::presenter::Event;

/// The command of a key while the view has the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Quit,
    Filter,
    NextSort,
    PreviousSort,
    Reverse,
    Freeze,
    Idle,
    Expand,
    Containers,
    Open,
    NextView,
    /// By its index.
    View(usize),
    Longer,
    Shorter,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
}

/// Keys and their command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    codes: &'static [KeyCode],
    command: Command,
    /// The keys as the help overlay shows them.
    pub(crate) keys: &'static str,
    pub(crate) help: &'static str,
    /// The short form for the footer, for the commands worth a reminder.
    pub(crate) hint: Option<&'static str>,
}

pub(crate) const fn binding(
    codes: &'static [KeyCode],
    command: Command,
    keys: &'static str,
    help: &'static str,
    hint: Option<&'static str>,
) -> Binding {
    Binding { codes, command, keys, help, hint }
}

use KeyCode::Char;

/// Keys that move; the view decides what moves.
pub(crate) const UP: &[KeyCode] = &[KeyCode::Up, Char('k')];
pub(crate) const DOWN: &[KeyCode] = &[KeyCode::Down, Char('j')];
pub(crate) const TOP: &[KeyCode] = &[KeyCode::Home, Char('g')];

mod common {
    use super::{Binding, Char, Command, DOWN, KeyCode, TOP, UP, binding};

    pub(crate) const HELP: Binding =
        binding(&[Char('?'), Char('h')], Command::Help, "? h", "this help", Some("? help"));
    pub(crate) const QUIT: Binding =
        binding(&[Char('q'), KeyCode::Esc], Command::Quit, "q Esc ^C", "quit", Some("q quit"));
    pub(crate) const FREEZE: Binding =
        binding(&[Char('p'), Char(' ')], Command::Freeze, "p Space", "freeze or resume", Some("p freeze"));
    pub(crate) const LONGER: Binding =
        binding(&[Char('+'), Char('=')], Command::Longer, "+", "longer interval", Some("+/- interval"));
    pub(crate) const SHORTER: Binding =
        binding(&[Char('-')], Command::Shorter, "-", "shorter interval", None);
    pub(crate) const PAGE_UP: Binding =
        binding(&[KeyCode::PageUp], Command::PageUp, "PgUp", "one page up", None);
    pub(crate) const PAGE_DOWN: Binding =
        binding(&[KeyCode::PageDown], Command::PageDown, "PgDn", "one page down", None);
    pub(crate) const SCROLL_UP: Binding = binding(UP, Command::Up, "Up k", "scroll up", None);
    pub(crate) const SCROLL_DOWN: Binding =
        binding(DOWN, Command::Down, "Down j", "scroll down", Some("j/k scroll"));
    pub(crate) const TO_TOP: Binding = binding(TOP, Command::Top, "Home g", "top", None);
    pub(crate) const NEXT_SORT: Binding =
        binding(&[Char('s'), Char('>')], Command::NextSort, "s >", "sort by the next column", Some("s sort"));
    pub(crate) const PREVIOUS_SORT: Binding =
        binding(&[Char('S'), Char('<')], Command::PreviousSort, "S <", "sort by the previous column", None);
    pub(crate) const REVERSE: Binding =
        binding(&[Char('r')], Command::Reverse, "r", "reverse the order", Some("r reverse"));
    pub(crate) const BOTTOM: Binding =
        binding(&[KeyCode::End, Char('G')], Command::Bottom, "End G", "bottom", None);
}

pub(crate) use common::{
    BOTTOM, FREEZE, HELP, LONGER, NEXT_SORT, PAGE_DOWN, PAGE_UP, PREVIOUS_SORT, QUIT, REVERSE, SCROLL_DOWN,
    SCROLL_UP, SHORTER, TO_TOP,
};

/// The command of a key; modifiers other than shift make it another key.
pub(crate) fn command(bindings: &[Binding], key: KeyEvent) -> Option<Command> {
    if is_interrupt(key) {
        return Some(Command::Quit);
    }
    if !is_plain(key) {
        return None;
    }
    bindings.iter().find(|binding| binding.codes.contains(&key.code)).map(|binding| binding.command)
}

/// Ctrl-C, which a terminal in raw mode delivers as a key.
pub(crate) fn is_interrupt(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, Char('c' | 'C'))
}

/// The character that a key types.
pub(crate) fn typed(key: KeyEvent) -> Option<char> {
    match key.code {
        Char(c) if is_plain(key) && !c.is_control() => Some(c),
        _ => None,
    }
}

fn is_plain(key: KeyEvent) -> bool {
    key.modifiers.difference(KeyModifiers::SHIFT).is_empty()
}

/// The events of a terminal that concern a view.
pub(super) fn event(terminal: &Terminal) -> Option<Event> {
    match terminal {
        Terminal::Key(key) if key.kind != KeyEventKind::Release => Some(Event::Key(*key)),
        Terminal::Resize(width, height) => Some(Event::Resize { width: *width, height: *height }),
        _ => None,
    }
}

/// No key may have two meanings in a table.
#[cfg(test)]
pub(crate) fn assert_distinct(bindings: &[Binding]) {
    let mut codes: Vec<_> = bindings.iter().flat_map(|binding| binding.codes).collect();
    let count = codes.len();
    codes.sort_by_key(|code| format!("{code:?}"));
    codes.dedup();
    assert_eq!(codes.len(), count);
}

#[cfg(test)]
mod tests;
