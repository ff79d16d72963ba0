//! How a program asks for an object's type. rustc cannot express a call of a kernel's function: the program
//! calls a number, and the agent puts the function there before it loads the program.

/// The number that stands for `bpf_rdonly_cast`. No helper will ever have it.
pub const CALL: u32 = 0x7ca5_7001;
