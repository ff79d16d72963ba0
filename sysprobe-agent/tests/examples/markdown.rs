//! Parses the part of Markdown that the documents use: fenced blocks, inline code, links, headings and their
//! anchors.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The parts of a page. Lines are counted from 1.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) blocks: Vec<Block>,
    /// Inline code; a span that continues on the next line is joined.
    pub(crate) spans: Vec<(usize, String)>,
    pub(crate) links: Vec<(usize, String)>,
    /// The valid fragments of links to this page.
    pub(crate) anchors: BTreeSet<String>,
}

/// The text between two fences.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) language: String,
    /// The line of the opening fence.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let prose = page.take_blocks(text);
        page.take_anchors(&prose);
        let prose = page.take_spans(&prose);
        page.take_links(&prose);
        page
    }

    /// Collects the blocks; returns the rest, with empty lines in place of the blocks.
    fn take_blocks(&mut self, text: &str) -> String {
        let mut prose = String::new();
        let mut block: Option<Block> = None;
        for (line, text) in (1..).zip(text.lines()) {
            match (text.trim_start().strip_prefix("```"), block.as_mut()) {
                (Some(_), Some(_)) => self.blocks.extend(block.take()),
                (Some(language), None) => {
                    let language = language.trim().to_owned();
                    block = Some(Block { language, line, text: String::new() });
                }
                (None, Some(block)) => block.text.extend([text, "\n"]),
                (None, None) => prose.push_str(text),
            }
            prose.push('\n');
        }
        assert!(block.is_none(), "a block is not closed: {block:?}");
        prose
    }

    /// Collects anchors as GitHub makes them: lower-case letters, digits, `-` and `_`, with `-` for a blank
    /// and a number after a repeated anchor.
    fn take_anchors(&mut self, prose: &str) {
        for line in prose.lines() {
            let heading = line.trim_start_matches('#');
            let Some(heading) = heading.strip_prefix(' ').filter(|_| heading.len() < line.len()) else {
                continue;
            };
            let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
            let slug: String = heading.trim().to_lowercase().chars().filter(kept).collect();
            let slug = slug.replace(' ', "-");
            let mut numbered = (1..).map(|number| format!("{slug}-{number}"));
            let is_free = |slug: &String| !self.anchors.contains(slug);
            let anchor = Some(slug.clone()).filter(is_free).or_else(|| numbered.find(is_free));
            self.anchors.extend(anchor);
        }
    }

    /// Collects inline code; returns the rest, with blanks in its place. A span ends with its paragraph.
    fn take_spans(&mut self, prose: &str) -> String {
        let (mut rest, mut left) = (prose, String::new());
        while let Some(start) = rest.find('`') {
            let (before, from) = rest.split_at(start);
            left.push_str(before);
            let ticks = &from[..from.len() - from.trim_start_matches('`').len()];
            let inside = &from[ticks.len()..];
            let end = inside.find(ticks).filter(|end| !inside[..*end].contains("\n\n"));
            let (code, after) =
                end.map_or(("", inside), |end| (&inside[..end], &inside[end + ticks.len()..]));
            let line = left.matches('\n').count() + 1;
            let words: Vec<_> = code.split_whitespace().collect();
            // Within a table, a bar in code is escaped.
            self.spans.push((line, words.join(" ").replace("\\|", "|")));
            left.extend(code.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
            rest = after;
        }
        left + rest
    }

    /// Collects `[text](target)`, and `[name]: target` on a line of its own.
    fn take_links(&mut self, prose: &str) {
        for (line, text) in (1..).zip(prose.lines()) {
            let inline = text.split("](").skip(1).filter_map(|after| after.split_once(')'));
            let named = text.strip_prefix('[').and_then(|text| text.split_once("]: "));
            let targets = inline.map(|(target, _)| target).chain(named.map(|(_, target)| target));
            // A title may follow the target.
            let targets = targets.filter_map(|target| target.split_whitespace().next());
            self.links.extend(targets.map(|target| (line, target.to_owned())));
        }
    }
}

/// The path in the repository that a link on this page leads to; `None` if it leads out of the repository.
pub(crate) fn resolve(page: &Path, target: &str) -> Option<PathBuf> {
    if target.is_empty() {
        return Some(page.to_owned());
    }
    let mut path = page.parent().expect("a page is in a directory").to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    Some(path)
}
