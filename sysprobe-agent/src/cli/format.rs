//! The format of numbers and names: three significant digits with a unit, in at most [`NUMBER_WIDTH`]
//! columns; names truncated to a width with both ends kept. Names come from containers, so their invisible
//! characters are replaced before they reach the terminal.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use sysprobe_common::hist;

use crate::snapshot::{Workload, bucket_upper};

/// The maximum width of a number with its unit.
pub(crate) const NUMBER_WIDTH: usize = 6;
/// The placeholder for a missing number.
pub(crate) const NOTHING: &str = "-";
/// The length of a container id in hexadecimal, and how much of it people (and `docker ps`) use.
const ID_LENGTH: usize = 64;
const SHORT_ID_LENGTH: usize = 12;

/// The number as `show` formats it, or the placeholder.
pub(crate) fn or_nothing(number: Option<f64>, show: impl Fn(f64) -> String) -> String {
    number.map_or_else(|| NOTHING.to_owned(), show)
}

/// `950ns`, `12.3us`, `4.56ms`, `1.20s`; above the histograms' range `>32s`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds.is_infinite() {
        return format!(">{}s", bucket_upper(hist::OVERFLOW - 1));
    }
    let nanoseconds = seconds * 1e9;
    // The limits are half a unit below a thousand, so that `1.00ms` is shown and not `1000us`.
    if nanoseconds < 999.5 {
        return format!("{nanoseconds:.0}ns");
    }
    let (number, unit) = match nanoseconds {
        ns if ns < 999.5e3 => (ns / 1e3, "us"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{}{unit}", three_digits(number))
}

/// `0.37`, `12.4`, `128`, `<0.01`.
pub(crate) fn cores(number: f64) -> String {
    if number > 0.0 && number < 0.005 { "<0.01".to_owned() } else { three_digits(number) }
}

/// `12%`, `<1%`.
pub(crate) fn percent(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.005 { "<1%".to_owned() } else { format!("{:.0}%", ratio * 100.0) }
}

/// `12.3%`, `0.45%`, `<.01%`.
pub(crate) fn fine_percent(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.000_05 {
        "<.01%".to_owned()
    } else {
        format!("{}%", three_digits(ratio * 100.0))
    }
}

/// `3.4/s`, `120/s`, `1.2k/s`, `45k/s`, `1.2M/s`.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{}/s", count(per_second))
}

/// `3.4`, `120`, `1.2k`, `45k`, `1.2M`, `3.4G`.
pub(crate) fn count(number: f64) -> String {
    match number {
        n if n <= 0.0 => "0".to_owned(),
        n if n < 0.05 => "<.1".to_owned(),
        n if n < 999.5 => two_digits(n),
        n if n < 999.5e3 => format!("{}k", two_digits(n / 1e3)),
        n if n < 999.5e6 => format!("{}M", two_digits(n / 1e6)),
        n => format!("{}G", two_digits(n / 1e9)),
    }
}

/// `0`, `999999`, `1.2M`.
pub(crate) fn whole(number: u64) -> String {
    if number < 1_000_000 { number.to_string() } else { count(number as f64) }
}

fn three_digits(number: f64) -> String {
    match number {
        n if n < 9.995 => format!("{n:.2}"),
        n if n < 99.95 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

fn two_digits(number: f64) -> String {
    if number < 9.95 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// `namespace/pod/container`, or the container alone outside of pods; safe to print.
pub(crate) fn full_name(workload: &Workload) -> String {
    let parts = [&workload.namespace, &workload.pod, &workload.container];
    let parts: Vec<String> = parts.iter().filter(|part| !part.is_empty()).map(|part| clean(part)).collect();
    parts.join("/")
}

/// The same with container ids cut to the twelve characters that people use.
pub(crate) fn short_name(workload: &Workload) -> String {
    let full = full_name(workload);
    let words = full.split_inclusive(|c: char| !c.is_ascii_hexdigit());
    words.map(shorten_id).collect()
}

/// `word` may end in the one character that separates it from the next.
fn shorten_id(word: &str) -> String {
    let digits = word.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
    if digits.len() == ID_LENGTH {
        format!("{}{}", &digits[..SHORT_ID_LENGTH], &word[ID_LENGTH..])
    } else {
        word.to_owned()
    }
}

/// Replaces invisible characters: control characters, which can control a terminal, and characters without
/// width, which can reorder or hide text.
pub(crate) fn clean(text: &str) -> String {
    let visible = |c: char| !c.is_control() && width_of(c) > 0;
    text.chars().map(|c| if visible(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// The columns that `text` takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

fn width_of(c: char) -> usize {
    width(c.encode_utf8(&mut [0; 4]))
}

/// Cuts the middle out of a text that is too wide: a pod's name is recognized by both of its ends.
pub(crate) fn cut_middle(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub(1);
    let tail = take_width(text.chars().rev(), room / 2);
    let head = take_width(text.chars(), room - room / 2);
    let ellipsis = if limit > 0 { "…" } else { "" };
    format!("{}{ellipsis}{}", head.iter().collect::<String>(), tail.iter().rev().collect::<String>())
}

/// Cuts off the end of a text that is too wide.
pub(crate) fn cut_end(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let ellipsis = if limit > 0 { "…" } else { "" };
    let head: String = take_width(text.chars(), limit.saturating_sub(1)).iter().collect();
    format!("{head}{ellipsis}")
}

fn take_width(chars: impl Iterator<Item = char>, limit: usize) -> Vec<char> {
    let mut used = 0;
    let fits = |c: &char| {
        used += width_of(*c);
        used <= limit
    };
    chars.take_while(fits).collect()
}

/// Fills up with spaces on the right; `format!` counts characters, not columns.
pub(crate) fn pad_right(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Fills up with spaces on the left.
pub(crate) fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// JSON has no infinity, so it becomes the end of the histogram's range.
pub(crate) fn within_range(max: f64) -> f64 {
    max.min(bucket_upper(hist::OVERFLOW - 1))
}

/// The titles of a table's columns.
pub(crate) fn head(text: String) -> Line<'static> {
    Line::styled(text, Style::new().bold().underlined())
}

#[cfg(test)]
mod tests;
