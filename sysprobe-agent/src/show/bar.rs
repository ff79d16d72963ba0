//! Bars of letters: each part has a letter of its own, so that a bar can be read without its colours, and
//! colours for both the letter and what is behind it, so that it can be read on any terminal's background.

use ratatui::{
    style::{Color, Style},
    text::Span,
};

/// What stands for a part in a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) letter: char,
    /// Black on colours that people with any kind of colour-blindness can tell apart (Okabe and Ito, as far
    /// as the palette of 256 has them). That palette, unlike the sixteen colours, is the same in light and
    /// dark themes.
    background: u8,
}

impl Mark {
    pub(crate) const fn new(letter: char, background: u8) -> Self {
        Self { letter, background }
    }

    pub(crate) const fn style(self) -> Style {
        const BLACK: Color = Color::Indexed(16);
        Style::new().fg(BLACK).bg(Color::Indexed(self.background))
    }

    /// So many columns of a bar.
    pub(crate) fn cells(self, columns: usize, color: bool) -> Span<'static> {
        let text: String = std::iter::repeat_n(self.letter, columns).collect();
        Span::styled(text, if color { self.style() } else { Style::new() })
    }

    /// A bar of one part by itself, of at most `width` columns.
    pub(crate) fn bar(self, share: f64, width: usize, color: bool) -> Span<'static> {
        self.cells(columns(share, width), color)
    }
}

/// How many of `width` columns each part gets, by their shares: all of them, if the parts are all there is.
pub(crate) fn stacked(shares: impl Iterator<Item = f64>, width: usize) -> Vec<usize> {
    let mut sum = 0.0;
    let mut taken = 0;
    let next = |share: f64| {
        sum += share;
        let end = columns(sum, width);
        end - std::mem::replace(&mut taken, end)
    };
    shares.map(next).collect()
}

fn columns(share: f64, width: usize) -> usize {
    // In range: a share of a width.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between zero and the width")]
    let columns = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    columns
}

#[cfg(test)]
mod tests;
