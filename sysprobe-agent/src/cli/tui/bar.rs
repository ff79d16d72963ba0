//! Bars of letters. Each part has its own letter, so that a bar is readable without colours, and sets both
//! the letter's and the background colour, so that it is readable on any terminal background.

use ratatui::{
    style::{Color, Style},
    text::Span,
};

/// The letter and colour of a part of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) letter: char,
    /// The background, with black text. People with any kind of colour blindness can tell these colours apart
    /// (Okabe and Ito, as closely as the palette of 256 allows). Unlike the sixteen basic colours, that
    /// palette is the same in light and dark themes.
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

    /// This many columns of a bar.
    pub(crate) fn cells(self, columns: usize, color: bool) -> Span<'static> {
        let text: String = std::iter::repeat_n(self.letter, columns).collect();
        Span::styled(text, if color { self.style() } else { Style::new() })
    }

    /// A bar with a single part, of at most `width` columns.
    pub(crate) fn bar(self, share: f64, width: usize, color: bool) -> Span<'static> {
        self.cells(columns(share, width), color)
    }
}

/// The columns of each part, by its share of `width`. If the shares sum to 1, they fill the whole width.
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
    // In range, because it is a share of a width.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between zero and the width")]
    let columns = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    columns
}

#[cfg(test)]
mod tests;
