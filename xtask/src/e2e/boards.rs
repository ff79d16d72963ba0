//! The dashboards' queries, evaluated by the code of the agent's own test, whose files are modules here too.

#[path = "../../../sysprobe-agent/tests/dashboards/board.rs"]
pub(super) mod board;
#[path = "../../../sysprobe-agent/tests/dashboards/questions.rs"]
pub(super) mod questions;
