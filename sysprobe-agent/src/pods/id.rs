//! The id of a container or sandbox: 64 lower-case hexadecimal digits in every runtime.
//!
//! A value of this type is safe to become a part of a path: it cannot hold a slash or a dot.

use std::fmt::{self, Debug, Display, Formatter};

/// Kept as bytes: half the size of the text, without an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId([u8; 32]);

impl ContainerId {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Some(Self(id))
    }

    /// Parses the id in a pod's status, which begins with the runtime: `containerd://ID`.
    #[must_use]
    pub fn of_status(text: &str) -> Option<Self> {
        Self::parse(text.split_once("://")?.1)
    }
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl Display for ContainerId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl Debug for ContainerId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_64_lower_case_digits_are_an_id() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(ContainerId::parse(&id).expect("an id").to_string(), id);
        for text in ["", "../../etc/passwd", &id[1..], &format!("{id}0"), &id.to_uppercase()] {
            assert_eq!(ContainerId::parse(text), None, "{text}");
        }
        assert_eq!(ContainerId::of_status(&format!("cri-o://{id}")), ContainerId::parse(&id));
        assert_eq!(ContainerId::of_status(&id), None);
    }

    proptest! {
        #[test]
        fn any_text_is_an_id_that_reads_the_same_or_none(text in "[0-9a-g/.]{60,68}|\\PC*") {
            if let Some(id) = ContainerId::parse(&text) {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
