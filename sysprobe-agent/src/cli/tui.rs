//! The parts of live views: the loop that draws (`live`), keys, the frame, help, and bars.

pub(crate) mod bar;
pub(crate) mod chrome;
pub(crate) mod help;
pub(crate) mod input;
pub(crate) mod live;
pub(crate) mod steps;
