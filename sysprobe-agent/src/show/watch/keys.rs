//! The keys of the live view.

use crate::show::input::{
    BOTTOM, Binding, Command, DOWN, FREEZE, HELP, LONGER, PAGE_DOWN, PAGE_UP, QUIT, SHORTER, TOP, UP, binding,
};

/// By importance: the footer shows as many hints, from the first on, as fit.
pub(super) static BINDINGS: [Binding; 11] = [
    HELP,
    QUIT,
    FREEZE,
    LONGER,
    SHORTER,
    binding(UP, Command::Up, "Up k", "scroll up", None),
    binding(DOWN, Command::Down, "Down j", "scroll down", Some("j/k scroll")),
    PAGE_UP,
    PAGE_DOWN,
    binding(TOP, Command::Top, "Home g", "top", None),
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
