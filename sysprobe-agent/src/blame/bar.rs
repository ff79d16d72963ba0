//! Bars of letters: each cause has a letter of its own, so that a bar can be read without its colours, and colours for both
//! the letter and what is behind it, so that it can be read on any terminal's background.

use ratatui::style::{Color, Style};

use super::model::{Cause, Part};

/// What stands for a cause in a bar.
pub(super) const fn letter(cause: Cause) -> char {
    match cause {
        Cause::Throttled => 'T',
        Cause::SamePod => 'P',
        Cause::OtherPod => 'O',
        Cause::System => 'S',
        Cause::Kernel => 'K',
        Cause::Interrupt => 'I',
        Cause::Idle => '-',
        Cause::Unknown => '?',
        Cause::Others => '+',
    }
}

/// Black on colours that people with any kind of colour-blindness can tell apart (Okabe and Ito, as far as the palette of
/// 256 has them). That palette, unlike the sixteen colours, is the same in light and dark themes.
pub(super) const fn style(cause: Cause) -> Style {
    const BLACK: Color = Color::Indexed(16);
    let background = match cause {
        Cause::Throttled => 166,
        Cause::SamePod => 36,
        Cause::OtherPod => 214,
        Cause::System => 117,
        Cause::Kernel => 175,
        Cause::Interrupt => 227,
        Cause::Idle => 255,
        Cause::Unknown | Cause::Others => 250,
    };
    Style::new().fg(BLACK).bg(Color::Indexed(background))
}

/// How many of `width` columns each part gets: all of them, if the parts are all there is.
pub(super) fn stacked(parts: &[Part], width: usize) -> Vec<usize> {
    let mut sum = 0.0;
    let mut taken = 0;
    let next = |part: &Part| {
        sum += part.share;
        let end = columns(sum, width);
        end - std::mem::replace(&mut taken, end)
    };
    parts.iter().map(next).collect()
}

/// A bar of one part by itself, of at most `width` columns.
pub(super) fn single(part: &Part, width: usize) -> String {
    repeat(part.cause, columns(part.share, width))
}

pub(super) fn repeat(cause: Cause, columns: usize) -> String {
    std::iter::repeat_n(letter(cause), columns).collect()
}

fn columns(share: f64, width: usize) -> usize {
    // In range: a share of a width.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between zero and the width")]
    let columns = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    columns
}

#[cfg(test)]
mod tests;
