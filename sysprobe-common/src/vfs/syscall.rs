//! What a system call does to storage, as one number: the agent fills a table of them by system call, the
//! program that sees every call looks it up.

/// How many numbers the table has. The highest of a call that matters is below 450 on every architecture.
pub const TABLE: usize = 512;

/// What a call does, and in which argument it says to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syscall {
    /// Nothing that is counted.
    None,
    /// These operations (bits of `Operation::bit`) on the file of one descriptor.
    File { operations: u32, descriptor: u32 },
    /// From one descriptor to another.
    Transfer { from: u32, to: u32 },
    /// On memory that some file may be behind.
    Memory { operations: u32 },
    /// On a name; `directory` is [`WORKING`] without one.
    Name { operations: u32, directory: u32, name: u32 },
}

/// The directory of a name that is relative to the working directory.
pub const WORKING: u32 = 7;

const FILE: u32 = 1;
const TRANSFER: u32 = 2;
const MEMORY: u32 = 3;
const NAME: u32 = 4;

impl Syscall {
    /// Kind, two arguments and operations in one number; 0 is [`Self::None`].
    #[must_use]
    pub const fn encode(self) -> u32 {
        match self {
            Self::None => 0,
            Self::File { operations, descriptor } => FILE | descriptor << 4 | operations << 16,
            Self::Transfer { from, to } => TRANSFER | from << 4 | to << 8,
            Self::Memory { operations } => MEMORY | operations << 16,
            Self::Name { operations, directory, name } => {
                NAME | directory << 4 | name << 8 | operations << 16
            }
        }
    }

    #[inline]
    #[must_use]
    pub const fn decode(code: u32) -> Self {
        let (first, second, operations) = (code >> 4 & 7, code >> 8 & 7, code >> 16);
        match code & 15 {
            FILE => Self::File { operations, descriptor: first },
            TRANSFER => Self::Transfer { from: first, to: second },
            MEMORY => Self::Memory { operations },
            NAME => Self::Name { operations, directory: first, name: second },
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        for call in [
            Syscall::None,
            Syscall::File { operations: 0b10, descriptor: 0 },
            Syscall::Transfer { from: 1, to: 0 },
            Syscall::Memory { operations: 0b100 },
            Syscall::Name { operations: 0b11_0000, directory: WORKING, name: 3 },
        ] {
            assert_eq!(Syscall::decode(call.encode()), call);
        }
    }
}
