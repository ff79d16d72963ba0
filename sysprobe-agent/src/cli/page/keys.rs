//! The keys of the live view.

use crate::cli::tui::input::{
    BOTTOM, Binding, FREEZE, HELP, LONGER, PAGE_DOWN, PAGE_UP, QUIT, SCROLL_DOWN, SCROLL_UP, SHORTER, TO_TOP,
};

pub(super) static BINDINGS: [Binding; 11] = leaving_by(QUIT);

/// In order of importance: the footer shows as many hints, from the first on, as fit.
pub(crate) const fn leaving_by(quit: Binding) -> [Binding; 11] {
    [HELP, quit, FREEZE, LONGER, SHORTER, SCROLL_UP, SCROLL_DOWN, PAGE_UP, PAGE_DOWN, TO_TOP, BOTTOM]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_has_two_meanings() {
        crate::cli::tui::input::assert_distinct(&BINDINGS);
    }
}
