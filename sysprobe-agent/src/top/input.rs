//! What keys mean. One table: the key handling, the footer and the help overlay all come from it.

use crossterm::event::{Event as Terminal, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::Event;

/// What a key asks for while the table has the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Quit,
    Filter,
    NextSort,
    PreviousSort,
    Reverse,
    Freeze,
    Idle,
    OtherTopic,
    Longer,
    Shorter,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
}

/// Some keys and their command.
#[derive(Debug)]
pub(super) struct Binding {
    codes: &'static [KeyCode],
    pub(super) command: Command,
    /// The keys as the help overlay shows them.
    pub(super) keys: &'static str,
    pub(super) help: &'static str,
    /// The short form for the footer, for the commands worth a reminder.
    pub(super) hint: Option<&'static str>,
}

const fn binding(
    codes: &'static [KeyCode],
    command: Command,
    keys: &'static str,
    help: &'static str,
    hint: Option<&'static str>,
) -> Binding {
    Binding { codes, command, keys, help, hint }
}

use KeyCode::Char;

/// By importance: the footer shows as many hints, from the first on, as fit.
#[rustfmt::skip]
pub(super) static BINDINGS: [Binding; 17] = [
    binding(&[Char('?'), Char('h')], Command::Help, "? h", "this help", Some("? help")),
    binding(&[Char('q'), KeyCode::Esc], Command::Quit, "q Esc ^C", "quit", Some("q quit")),
    binding(&[KeyCode::Tab, Char('i')], Command::OtherTopic, "Tab i", "switch between CPU and I/O", Some("i cpu/io")),
    binding(&[Char('/')], Command::Filter, "/", "filter; Enter keeps, Esc clears", Some("/ filter")),
    binding(&[Char('s'), Char('>')], Command::NextSort, "s >", "sort by the next column", Some("s sort")),
    binding(&[Char('S'), Char('<')], Command::PreviousSort, "S <", "sort by the previous column", None),
    binding(&[Char('r')], Command::Reverse, "r", "reverse the order", Some("r reverse")),
    binding(&[Char('p'), Char(' ')], Command::Freeze, "p Space", "freeze, or go on", Some("p freeze")),
    binding(&[Char('a')], Command::Idle, "a", "show or hide idle workloads", Some("a idle")),
    binding(&[Char('+'), Char('=')], Command::Longer, "+", "longer interval", Some("+/- interval")),
    binding(&[Char('-')], Command::Shorter, "-", "shorter interval", None),
    binding(&[KeyCode::Up, Char('k')], Command::Up, "Up k", "select the line above", None),
    binding(&[KeyCode::Down, Char('j')], Command::Down, "Down j", "select the line below", None),
    binding(&[KeyCode::PageUp], Command::PageUp, "PgUp", "one page up", None),
    binding(&[KeyCode::PageDown], Command::PageDown, "PgDn", "one page down", None),
    binding(&[KeyCode::Home, Char('g')], Command::Top, "Home g", "top, nothing selected", None),
    binding(&[KeyCode::End, Char('G')], Command::Bottom, "End G", "bottom", None),
];

/// The command of a key; modifiers other than shift make it another key.
pub(super) fn command(key: KeyEvent) -> Option<Command> {
    if is_interrupt(key) {
        return Some(Command::Quit);
    }
    if !is_plain(key) {
        return None;
    }
    BINDINGS.iter().find(|binding| binding.codes.contains(&key.code)).map(|binding| binding.command)
}

/// Ctrl-C, which a terminal in raw mode delivers as a key.
pub(super) fn is_interrupt(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, Char('c' | 'C'))
}

/// The character that a key types.
pub(super) fn typed(key: KeyEvent) -> Option<char> {
    match key.code {
        Char(c) if is_plain(key) && !c.is_control() => Some(c),
        _ => None,
    }
}

fn is_plain(key: KeyEvent) -> bool {
    key.modifiers.difference(KeyModifiers::SHIFT).is_empty()
}

/// What of a terminal's events concerns the table.
pub(super) fn event(terminal: &Terminal) -> Option<Event> {
    match terminal {
        Terminal::Key(key) if key.kind != KeyEventKind::Release => Some(Event::Key(*key)),
        Terminal::Resize(width, height) => Some(Event::Resize { width: *width, height: *height }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
