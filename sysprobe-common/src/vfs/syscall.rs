//! The effect of a system call on storage, encoded in one number. The agent fills a table with them by system
//! call, and the program that sees every call looks it up.

/// The size of the table. All calls that matter have numbers below 450 on every architecture.
pub const TABLE: usize = 512;

/// The operations of a call, and the arguments with their target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syscall {
    /// A call that is not counted.
    None,
    /// These operations (bits of `Operation::bit`) on the file of a descriptor.
    File { operations: u32, descriptor: u32 },
    /// A transfer from one descriptor to another.
    Transfer { from: u32, to: u32 },
    /// These operations on memory that may be mapped from a file.
    Memory { operations: u32 },
    /// These operations on a name. `directory` is [`WORKING`] if the call has no such argument.
    Name { operations: u32, directory: u32, name: u32 },
}

/// Stands for the working directory, for a name without a directory argument.
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
