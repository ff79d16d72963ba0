//! Reduces JSON while it arrives: an unwanted member keeps only `null`, so memory depends on what the reader
//! wants and not on what a pod's author wrote. Pure; the text comes in pieces of any size.
//!
//! It follows strings and brackets, and leaves validation to the parser: invalid JSON stays invalid.

/// The part of a value that is wanted. For an array, it applies to each element.
#[derive(Debug)]
pub(in crate::pods) enum Want {
    All,
    /// These members of an object.
    Members(&'static [(&'static str, Self)]),
    /// An array whose elements are handed over one by one, each reduced to this.
    Elements(&'static Self),
}

/// No wanted member has a longer name.
const KEY_MAX: usize = 64;
/// A pod has a dozen levels.
const DEPTH_MAX: usize = 64;

/// The wanted part of a whole document, or of one element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::pods) struct Sifted {
    pub(in crate::pods) text: Vec<u8>,
    /// The limit was exceeded: this is only the beginning.
    pub(in crate::pods) is_cut: bool,
}

#[derive(Debug)]
pub(in crate::pods) struct Sieve {
    root: &'static Want,
    /// The most that is kept of a document or an element.
    limit: usize,
    kept: Sifted,
    /// The open brackets whose contents are wanted.
    open: Vec<Level>,
    string: Option<Quoted>,
    /// How many brackets are open inside an unwanted value; `None` outside of one.
    unwanted: Option<usize>,
    /// The name of the member whose value comes next.
    key: Vec<u8>,
    /// Brackets do not match, or nest too deeply. The rest of the input is dropped.
    is_broken: bool,
}

#[derive(Debug)]
struct Level {
    want: &'static Want,
    bracket: Bracket,
    /// The next string is a member's name.
    expects_key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    Object,
    Array,
    /// An array whose elements are handed over, and the length of the kept text before them.
    Elements(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quoted {
    is_key: bool,
    escaped: bool,
}

impl Sieve {
    pub(in crate::pods) const fn new(root: &'static Want, limit: usize) -> Self {
        Self {
            root,
            limit,
            kept: Sifted { text: Vec::new(), is_cut: false },
            open: Vec::new(),
            string: None,
            unwanted: None,
            key: Vec::new(),
            is_broken: false,
        }
    }

    /// Takes in the next piece. Each element is passed to `element` as it ends.
    pub(in crate::pods) fn push(&mut self, piece: &[u8], element: &mut impl FnMut(Sifted)) {
        let mut rest = piece;
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            if let Some(quoted) = self.string {
                self.in_string(quoted, *byte);
                if self.unwanted.is_some() && self.string.is_some_and(|quoted| !quoted.escaped) {
                    // Skips ahead, because an unwanted string may be long.
                    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
                    rest = &rest[end.unwrap_or(rest.len())..];
                }
            } else if !self.is_broken {
                self.between_strings(*byte, element);
            }
        }
    }

    /// Ends the document; the next piece begins another.
    pub(in crate::pods) fn end(&mut self) -> Sifted {
        let ended = std::mem::replace(self, Self::new(self.root, self.limit));
        ended.kept
    }

    fn in_string(&mut self, quoted: Quoted, byte: u8) {
        let Quoted { is_key, escaped } = quoted;
        self.string = match byte {
            b'"' if !escaped => None,
            b'\\' if !escaped => Some(Quoted { is_key, escaped: true }),
            _ => Some(Quoted { is_key, escaped: false }),
        };
        if is_key && self.string.is_some() && self.key.len() <= KEY_MAX {
            self.key.push(byte);
        }
        self.keep(byte);
    }

    fn between_strings(&mut self, byte: u8, element: &mut impl FnMut(Sifted)) {
        if self.skip(byte) {
            return;
        }
        match byte {
            b'"' => {
                let is_key = self.open.last_mut().is_some_and(|level| std::mem::take(&mut level.expects_key));
                if is_key {
                    self.key.clear();
                }
                self.string = Some(Quoted { is_key, escaped: false });
                self.keep(byte);
            }
            b'{' | b'[' => self.enter(byte),
            b'}' | b']' => self.leave(byte, element),
            b',' => self.separate(element),
            b':' => {
                self.keep(byte);
                if self.wanted_value().is_none() {
                    b"null".iter().for_each(|byte| self.keep(*byte));
                    self.unwanted = Some(0);
                }
            }
            _ => self.keep(byte),
        }
    }

    /// Skips an unwanted byte. Returns `false` if the byte is wanted.
    fn skip(&mut self, byte: u8) -> bool {
        let Some(depth) = &mut self.unwanted else { return false };
        match byte {
            b',' | b'}' | b']' if *depth == 0 => {
                self.unwanted = None;
                return false;
            }
            b'"' => self.string = Some(Quoted { is_key: false, escaped: false }),
            b'{' | b'[' => *depth += 1,
            b'}' | b']' => *depth -= 1,
            _ => {}
        }
        true
    }

    /// The wanted part of the value that comes next.
    fn wanted_value(&self) -> Option<&'static Want> {
        let Some(level) = self.open.last() else { return Some(self.root) };
        match level.want {
            Want::Members(members) if level.bracket == Bracket::Object => {
                let member = members.iter().find(|(name, _)| name.as_bytes() == self.key);
                member.map(|(_, want)| want)
            }
            want => Some(want),
        }
    }

    fn enter(&mut self, byte: u8) {
        self.keep(byte);
        let (Some(want), false) = (self.wanted_value(), self.open.len() >= DEPTH_MAX) else {
            self.is_broken = true;
            return;
        };
        let (want, bracket) = match (byte, want) {
            (b'{', _) => (want, Bracket::Object),
            (_, Want::Elements(each)) => (*each, Bracket::Elements(self.kept.text.len())),
            _ => (want, Bracket::Array),
        };
        self.open.push(Level { want, bracket, expects_key: bracket == Bracket::Object });
    }

    fn leave(&mut self, byte: u8, element: &mut impl FnMut(Sifted)) {
        let bracket = self.open.pop().map(|level| level.bracket);
        match (byte, bracket) {
            (b']', Some(Bracket::Elements(start))) => self.hand_over(start, element),
            (b'}', Some(Bracket::Object)) | (b']', Some(Bracket::Array)) => {}
            _ => self.is_broken = true,
        }
        self.keep(byte);
    }

    fn separate(&mut self, element: &mut impl FnMut(Sifted)) {
        match self.open.last_mut() {
            Some(Level { bracket: Bracket::Elements(start), .. }) => {
                let start = *start;
                self.hand_over(start, element);
            }
            Some(level) => {
                level.expects_key = level.bracket == Bracket::Object;
                self.keep(b',');
            }
            None => self.keep(b','),
        }
    }

    fn hand_over(&mut self, start: usize, element: &mut impl FnMut(Sifted)) {
        let text = self.kept.text.split_off(start);
        let is_cut = std::mem::take(&mut self.kept.is_cut);
        if is_cut || !text.trim_ascii().is_empty() {
            element(Sifted { text, is_cut });
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.unwanted.is_some() {
            return;
        }
        if self.kept.text.len() < self.limit {
            self.kept.text.push(byte);
        } else {
            self.kept.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests;
