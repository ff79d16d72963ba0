//! The keys of the live table.

use crossterm::event::KeyCode::{self, Char};

use crate::cli::page::keys::leaving_by;
use crate::cli::tui::input::{
    BOTTOM, Binding, Command, DOWN, FREEZE, HELP, LONGER, NEXT_SORT, PAGE_DOWN, PAGE_UP, PREVIOUS_SORT, QUIT,
    REVERSE, SHORTER, TOP, UP, binding,
};

/// In order of importance: the footer shows as many hints, from the first on, as fit.
pub(super) static BINDINGS: [Binding; 24] = [
    HELP,
    QUIT,
    binding(&[KeyCode::Tab], Command::NextView, "Tab", "next view", Some("1-4 views")),
    binding(&[Char('1'), Char('c')], Command::View(0), "1 c", "CPU and waits for it", None),
    binding(&[Char('2'), Char('i')], Command::View(1), "2 i", "I/O", None),
    binding(&[Char('3'), Char('n')], Command::View(2), "3 n", "network", None),
    binding(&[Char('4'), Char('l')], Command::View(3), "4 l", "latencies side by side", None),
    binding(&[Char('/')], Command::Filter, "/", "filter; Enter keeps, Esc clears", Some("/ filter")),
    NEXT_SORT,
    PREVIOUS_SORT,
    REVERSE,
    FREEZE,
    binding(
        &[KeyCode::Enter],
        Command::Open,
        "Enter",
        "open a page about the selected row",
        Some("Enter open"),
    ),
    binding(
        &[Char('x'), KeyCode::Right],
        Command::Expand,
        "x Right",
        "show or hide the pod's containers",
        Some("x expand"),
    ),
    binding(&[Char('X')], Command::Containers, "X", "a row for each container, or pod", None),
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

/// The bindings of a page that is opened from the table.
pub(super) static OPENED_BINDINGS: [Binding; 11] = leaving_by(binding(
    &[Char('q'), KeyCode::Esc, KeyCode::Left],
    Command::Quit,
    "q Esc Left",
    "back to the table",
    Some("q back"),
));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings() {
        crate::cli::tui::input::assert_distinct(&BINDINGS);
        crate::cli::tui::input::assert_distinct(&OPENED_BINDINGS);
    }
}
