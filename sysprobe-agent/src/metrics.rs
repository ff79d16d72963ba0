//! A snapshot as Prometheus sees it: one table of metrics, and the exposition formats that a reader may ask
//! for.

pub mod table;

mod buckets;
mod created;
mod emit;
mod format;
mod process;
mod render;
mod text;

pub use format::Format;
pub use render::{Failed, render, render_to};
