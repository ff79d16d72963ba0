//! The keys of the live table.

use crossterm::event::KeyCode::{self, Char};

use crate::show::input::{
    BOTTOM, Binding, Command, DOWN, FREEZE, HELP, LONGER, NEXT_SORT, PAGE_DOWN, PAGE_UP, PREVIOUS_SORT, QUIT,
    REVERSE, SHORTER, TOP, UP, binding,
};

/// By importance: the footer shows as many hints, from the first on, as fit.
#[rustfmt::skip]
pub(super) static BINDINGS: [Binding; 17] = [
    HELP,
    QUIT,
    binding(&[KeyCode::Tab, Char('i')], Command::OtherTopic, "Tab i", "switch between CPU and I/O", Some("i cpu/io")),
    binding(&[Char('/')], Command::Filter, "/", "filter; Enter keeps, Esc clears", Some("/ filter")),
    NEXT_SORT,
    PREVIOUS_SORT,
    REVERSE,
    FREEZE,
    binding(&[Char('a')], Command::Idle, "a", "show or hide idle workloads", Some("a idle")),
    LONGER,
    SHORTER,
    binding(UP, Command::Up, "Up k", "select the line above", None),
    binding(DOWN, Command::Down, "Down j", "select the line below", None),
    PAGE_UP,
    PAGE_DOWN,
    binding(TOP, Command::Top, "Home g", "top, nothing selected", None),
    BOTTOM,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings() {
        crate::show::input::assert_distinct(&BINDINGS);
    }
}
