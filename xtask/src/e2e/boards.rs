//! The queries of the dashboards, by the code with which the agent's own test asks them: its files are
//! modules here, too.

#[path = "../../../sysprobe-agent/tests/dashboards/board.rs"]
pub(super) mod board;
#[path = "../../../sysprobe-agent/tests/dashboards/questions.rs"]
pub(super) mod questions;
