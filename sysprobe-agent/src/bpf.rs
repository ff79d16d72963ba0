//! The only user of aya and of `bpf(2)`: objects become running programs and readable maps.

mod batch;
mod cast;
mod kprobe;
mod loaded;
mod loader;
mod memlock;
mod mmap;
mod reason;
mod shared;
mod syscall;

pub use batch::Entries;
pub use loaded::{Loaded, ProgramStatistics, Running, Walk};
pub use loader::{LoadError, Loader};
pub use mmap::MappedArray;
pub use syscall::measure_programs;
