//! Loads and attaches programs with aya, and makes all other calls of `bpf(2)`: objects become running
//! programs and readable maps.

mod attach;
mod batch;
mod cast;
mod fold;
mod instruction;
mod kprobe;
mod lanes;
mod loaded;
mod loader;
mod memlock;
mod mmap;
mod reason;
mod scan;
mod shared;
mod syscall;

pub use batch::Entries;
pub use lanes::Lanes;
pub use loaded::{Loaded, ProgramStatistics, Running};
pub use loader::{LoadError, Loader};
pub use mmap::{MappedArray, Plain};
pub use scan::{Pass, Scan, ScanStatistics};
pub use syscall::measure_programs;
