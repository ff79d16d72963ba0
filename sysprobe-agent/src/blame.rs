//! `sysprobe blame`: how long one workload's runnable threads waited for a CPU in the last window, why, and who ran
//! meanwhile.
//!
//! What was typed is found among the workloads (`target`); two snapshots make a window (`model`), which is shown live
//! (`app`, `keys`, `view`), as plain text (`text`) or as JSON (`json`). How windows come about and reach a terminal is the
//! same for all commands: `show`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    show::{self, Settings, Source, View, Width},
    snapshot::Snapshot,
};

mod app;
pub mod args;
mod bar;
pub mod json;
mod keys;
mod layout;
mod model;
mod target;
mod text;
mod view;

pub use args::BlameArgs;
use target::{NoTarget, Target};

/// How long a source that was started a moment ago may take to name the pods: as long as an API server takes to answer.
const NAMES_WITHIN: Duration = Duration::from_secs(3);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Shows windows until the user has seen enough: one with `--once`.
pub async fn run(args: BlameArgs, mut source: impl Source) -> anyhow::Result<()> {
    let (target, first) = find(&args, &mut source).await?;
    show::run(&args.window, target, first, source).await
}

/// The workload that is meant, and a snapshot that has it. Where pods have names that may still come, they are waited for.
async fn find(args: &BlameArgs, source: &mut impl Source) -> anyhow::Result<(Target, Snapshot)> {
    let begun = Instant::now();
    loop {
        let snapshot = source.next().await?;
        let names_may_come =
            source.is_new() && !snapshot.agent.pod_sources.is_empty() && begun.elapsed() < NAMES_WITHIN;
        match Target::find(&snapshot, args) {
            Ok(target) => return Ok((target, snapshot)),
            Err(NoTarget::Unknown { .. }) if names_may_come => sleep(LOOK_AGAIN_AFTER).await,
            Err(error) => return Err(error.into()),
        }
    }
}

impl View for Target {
    type App = app::App;

    fn text(&self, earlier: &Snapshot, later: &Snapshot, origin: &str, width: Width) -> String {
        text::text(earlier, later, self, origin, width)
    }

    fn json(&self, earlier: &Snapshot, later: &Snapshot, origin: &str) -> serde_json::Result<String> {
        json::line(earlier, later, self, origin)
    }

    fn into_app(self, settings: Settings, first: Arc<Snapshot>, size: (u16, u16)) -> app::App {
        app::App::new(settings, self, first, size)
    }
}

#[cfg(test)]
mod fixture;
