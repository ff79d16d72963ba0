//! Calls of the kernel function `bpf_rdonly_cast`. rustc cannot express them, so a program calls a
//! placeholder number, which the agent replaces by the function before loading.

/// The placeholder for `bpf_rdonly_cast`. No helper will ever have this number.
pub const CALL: u32 = 0x7ca5_7001;
