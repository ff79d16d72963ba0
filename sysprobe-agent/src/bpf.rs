//! The only user of aya and of `bpf(2)`: objects become running programs and readable maps.

mod batch;
mod loader;
mod mmap;
mod syscall;

pub use batch::Entries;
pub use loader::{LoadError, Loaded, Loader, ProgramStatistics};
pub use mmap::MappedArray;
pub use syscall::measure_programs;
