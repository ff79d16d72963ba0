//! One instruction slot of eight bytes: its encoding, what it reads and writes, and where it leads. The codes
//! are those of include/uapi/linux/bpf.h.

use aya_obj::generated::{
    BPF_ADD, BPF_ALU, BPF_ALU64, BPF_ATOMIC, BPF_CALL, BPF_CMPXCHG, BPF_DW, BPF_END, BPF_EXIT, BPF_FETCH,
    BPF_IMM, BPF_JA, BPF_JMP, BPF_JMP32, BPF_K, BPF_LD, BPF_LDX, BPF_MEM, BPF_MEMSX, BPF_MOV, BPF_NEG,
    BPF_ST, BPF_STX, BPF_W, BPF_X, BPF_XCHG, BPF_XOR,
};

pub(super) const SIZE: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// The destination in the lower half, the source in the upper half.
    registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// Registers, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers(u16);

/// Where control goes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// It may go on with the next instruction.
    pub(super) continues: bool,
    /// The number of the instruction that it may jump to.
    pub(super) target: Option<usize>,
}

#[expect(clippy::cast_possible_truncation, reason = "codes are bytes")]
const fn code(parts: u32) -> u8 {
    parts as u8
}

/// Takes two slots.
pub(super) const LOAD_WIDE: u8 = code(BPF_LD | BPF_DW | BPF_IMM);
pub(super) const LOAD_WORD: u8 = code(BPF_LDX | BPF_W | BPF_MEM);
pub(super) const SET_WORD: u8 = code(BPF_ALU | BPF_MOV | BPF_K);
pub(super) const COPY: u8 = code(BPF_ALU64 | BPF_MOV | BPF_X);
pub(super) const ADD: u8 = code(BPF_ALU64 | BPF_ADD | BPF_X);
pub(super) const ADD_CONSTANT: u8 = code(BPF_ALU64 | BPF_ADD | BPF_K);
pub(super) const CALL: u8 = code(BPF_JMP | BPF_CALL);

/// Does nothing. The kernel removes it (`opt_remove_nops`, Linux 5.1).
pub(super) const NOTHING: Instruction =
    Instruction { code: code(BPF_JMP | BPF_JA), registers: 0, offset: 0, immediate: 0 };

const RESULT: u8 = 0;
/// The frame pointer, the last register.
const FRAME: u8 = 10;
const ARGUMENTS: Registers = Registers(0b11_1110);
/// What a call overwrites.
const SCRATCH: Registers = Registers(0b11_1111);

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn low_half(number: u64) -> i32 {
    (number as u32).cast_signed()
}

impl Instruction {
    pub(super) const fn new(code: u8, (to, from): (u8, u8), offset: i16, immediate: i32) -> Self {
        Self { code, registers: to | from << 4, offset, immediate }
    }

    pub(super) const fn from_bytes(bytes: [u8; SIZE]) -> Self {
        Self {
            code: bytes[0],
            registers: bytes[1],
            offset: i16::from_ne_bytes([bytes[2], bytes[3]]),
            immediate: i32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }

    /// Both slots of an instruction that loads a number of eight bytes, or what `from` makes of the number.
    pub(super) const fn load_wide(registers: (u8, u8), number: u64) -> [Self; 2] {
        [
            Self::new(LOAD_WIDE, registers, 0, low_half(number)),
            Self::new(0, (0, 0), 0, low_half(number >> 32)),
        ]
    }

    pub(super) const fn to_bytes(self) -> [u8; SIZE] {
        let (offset, number) = (self.offset.to_ne_bytes(), self.immediate.to_ne_bytes());
        [self.code, self.registers, offset[0], offset[1], number[0], number[1], number[2], number[3]]
    }

    /// The destination.
    pub(super) const fn to(self) -> u8 {
        self.registers & 0xf
    }

    /// The source.
    pub(super) const fn from(self) -> u8 {
        self.registers >> 4
    }

    pub(super) const fn slots(self) -> usize {
        if self.code == LOAD_WIDE { 2 } else { 1 }
    }

    /// Whether its effects are known here: rustc emits no others for these programs.
    pub(super) fn is_known(self) -> bool {
        let registers = self.to() <= FRAME && self.from() <= FRAME;
        registers
            && match (self.class(), self.operation()) {
                (BPF_LD, _) => self.code == LOAD_WIDE,
                (BPF_STX, _) if self.mode() == BPF_ATOMIC => self.is_known_atomic(),
                (BPF_ST | BPF_STX, _) => self.mode() == BPF_MEM,
                (BPF_LDX, _) => self.is_load(),
                // Calls and jumps through a register.
                (BPF_JMP, BPF_CALL | BPF_JA) => !self.has_source(),
                _ => true,
            }
    }

    #[expect(clippy::cast_sign_loss, reason = "bits")]
    fn is_known_atomic(self) -> bool {
        let operation = self.immediate as u32;
        matches!(operation, BPF_CMPXCHG | BPF_XCHG) || operation & !BPF_FETCH <= BPF_XOR
    }

    const fn class(self) -> u32 {
        self.code as u32 & 0x07
    }

    const fn operation(self) -> u32 {
        self.code as u32 & 0xf0
    }

    const fn mode(self) -> u32 {
        self.code as u32 & 0xe0
    }

    const fn has_source(self) -> bool {
        self.code as u32 & BPF_X != 0
    }

    const fn is_jump(self) -> bool {
        matches!(self.class(), BPF_JMP | BPF_JMP32)
    }

    const fn is_call(self) -> bool {
        self.class() == BPF_JMP && self.operation() == BPF_CALL
    }

    /// Whether it loads from the memory that its source points to.
    pub(super) const fn is_load(self) -> bool {
        self.class() == BPF_LDX && matches!(self.mode(), BPF_MEM | BPF_MEMSX)
    }

    /// Whether a basic block ends with it.
    pub(super) fn ends_block(self) -> bool {
        self.is_jump() && !self.is_call() && self != NOTHING
    }

    pub(super) fn reads(self) -> Registers {
        let (to, from) = (Registers::of(self.to()), Registers::of(self.from()));
        let source = if self.has_source() { from } else { Registers::default() };
        match (self.class(), self.operation()) {
            (BPF_ALU | BPF_ALU64, BPF_MOV) => source,
            (BPF_ALU | BPF_ALU64, BPF_NEG | BPF_END) | (BPF_ST, _) => to,
            (BPF_LDX, _) => from,
            (BPF_STX, _) if self.mode() == BPF_ATOMIC => to.with(from).with(Registers::of(RESULT)),
            (BPF_STX, _) => to.with(from),
            (BPF_JMP, BPF_CALL) => ARGUMENTS,
            (BPF_JMP, BPF_EXIT) => Registers::of(RESULT),
            (BPF_JMP | BPF_JMP32, BPF_JA) => Registers::default(),
            (BPF_ALU | BPF_ALU64 | BPF_JMP | BPF_JMP32, _) => to.with(source),
            // Loads of an immediate, and of packets, which only old programs do.
            _ if self.code == LOAD_WIDE => Registers::default(),
            _ => ARGUMENTS.with(Registers::of(6)),
        }
    }

    pub(super) fn writes(self) -> Registers {
        match self.class() {
            BPF_ALU | BPF_ALU64 | BPF_LDX => Registers::of(self.to()),
            BPF_LD if self.code == LOAD_WIDE => Registers::of(self.to()),
            BPF_STX if self.mode() == BPF_ATOMIC => self.fetches(),
            BPF_JMP if self.is_call() => SCRATCH,
            _ => Registers::default(),
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "bits")]
    fn fetches(self) -> Registers {
        match self.immediate as u32 {
            BPF_CMPXCHG => Registers::of(RESULT),
            operation if operation & BPF_FETCH != 0 => Registers::of(self.from()),
            _ => Registers::default(),
        }
    }

    /// `at` is the instruction's own number.
    pub(super) fn flow(self, at: usize) -> Flow {
        let next = Flow { continues: true, target: None };
        if !self.ends_block() {
            return next;
        }
        let by = |distance: isize| (at + 1).checked_add_signed(distance);
        match (self.class(), self.operation()) {
            (BPF_JMP, BPF_EXIT) => Flow { continues: false, target: None },
            (BPF_JMP32, BPF_JA) => Flow { continues: false, target: by(self.immediate as isize) },
            (_, BPF_JA) => Flow { continues: false, target: by(self.offset.into()) },
            _ => Flow { continues: true, target: by(self.offset.into()) },
        }
    }
}

impl Registers {
    pub(super) const fn of(register: u8) -> Self {
        Self(1 << register)
    }

    pub(super) const fn has(self, register: u8) -> bool {
        self.0 & 1 << register != 0
    }

    pub(super) const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(super) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}
