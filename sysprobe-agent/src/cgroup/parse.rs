//! The two formats in which cgroup files have numbers: a single value, and `key value` lines.

/// A file's contents differ from the kernel's format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{file}`, line {line}: expected {expected}, found `{}`", text.escape_debug())]
pub struct ParseError {
    pub file: &'static str,
    pub line: usize,
    pub text: String,
    pub expected: &'static str,
}

/// One line of a flat keyed file.
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a str,
    file: &'static str,
    line: usize,
    text: &'a str,
}

impl ParseError {
    pub(crate) fn new(file: &'static str, line: usize, text: &str, expected: &'static str) -> Self {
        // Enough to recognise the line. The text goes into a log.
        let text = text.chars().take(80).collect();
        Self { file, line, text, expected }
    }
}

impl Entry<'_> {
    pub(crate) fn number(&self) -> Result<u64, ParseError> {
        let value = self.text.split_once(' ').and_then(|(_, value)| value.trim_end().parse().ok());
        value.ok_or_else(|| ParseError::new(self.file, self.line, self.text, "a key and a number"))
    }
}

/// The lines of a flat keyed file. Values are parsed only on request, because a newer kernel may add keys in
/// any format.
pub(crate) fn flat_keyed<'a>(file: &'static str, text: &'a str) -> impl Iterator<Item = Entry<'a>> {
    text.lines().enumerate().map(move |(index, text)| {
        let key = text.split(' ').next().unwrap_or_default();
        Entry { key, file, line: index + 1, text }
    })
}

/// A file that holds one number.
pub(crate) fn number(file: &'static str, text: &str) -> Result<u64, ParseError> {
    text.trim_end().parse().map_err(|_| ParseError::new(file, 1, text.trim_end(), "a number"))
}
