//! A snapshot as Prometheus sees it: one table of metrics, and the two text forms.

pub mod table;

mod collector;
mod text;

pub use collector::render;
pub use text::Format;
