//! The keys of the live view.

use crate::cli::tui::input::{
    BOTTOM, Binding, FREEZE, HELP, LONGER, NEXT_SORT, PAGE_DOWN, PAGE_UP, PREVIOUS_SORT, QUIT, REVERSE,
    SCROLL_DOWN, SCROLL_UP, SHORTER, TO_TOP,
};

/// In order of importance: the footer shows as many hints, from the first on, as fit.
pub(super) static BINDINGS: [Binding; 14] = [
    HELP,
    QUIT,
    NEXT_SORT,
    PREVIOUS_SORT,
    REVERSE,
    FREEZE,
    LONGER,
    SHORTER,
    SCROLL_UP,
    SCROLL_DOWN,
    PAGE_UP,
    PAGE_DOWN,
    TO_TOP,
    BOTTOM,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings() {
        crate::cli::tui::input::assert_distinct(&BINDINGS);
    }
}
