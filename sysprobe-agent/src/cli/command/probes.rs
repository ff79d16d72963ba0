//! `sysprobe probes`: the cost of each of the agent's BPF programs, the fill level of its maps, and its
//! losses, in the last window. The kernel measures programs only while a reader asks for it.
//!
//! Two snapshots make a window (`model`), which is shown as tables (`view`) or as JSON (`json`).

use std::time::Duration;

use clap::Args;

use crate::agent::client::lease_ms;
use crate::cli::args::WindowArgs;
use crate::cli::page::{Body, Form, Page, Pages};
use crate::cli::tui::input::{Binding, Command};
use crate::cli::window;
use crate::snapshot::source::Source;
use crate::snapshot::{Query, Snapshot};

pub mod json;
mod keys;
mod model;
mod view;

#[cfg(test)]
mod fixture;

use model::Order;
pub use model::SortKey;
pub(crate) use model::Window;

pub const NOTE: &str = "While this command runs, the kernel's BPF statistics are on (this needs \
                        CAP_SYS_ADMIN). They add a few nanoseconds to each run of every BPF program on \
                        the machine.";

pub const HELP: &str = "What does sysprobe itself cost on this node? Shows the runs, time and CPU share of \
    each BPF program, how full the maps are, and which updates were lost.\n\n\
    Example: the five programs that took most CPU time in the next ten seconds\n  \
    sysprobe probes --once --interval 10 | head -8";

/// How long, and in which order.
#[derive(Args, Clone, Debug)]
pub struct ProbesArgs {
    #[command(flatten)]
    pub window: WindowArgs,
    /// Column to sort by, largest first; `name` sorts from a to z.
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t)]
    pub sort: SortKey,
}

impl ProbesArgs {
    /// The query for what is needed beside the totals.
    #[must_use]
    pub fn query(&self) -> Query {
        Query { measure: true, lease_ms: lease_ms(self.window.step()), ..Query::default() }
    }
}

/// Shows windows until the user quits; with `--once`, a single one.
pub async fn run(args: ProbesArgs, mut source: impl Source) -> anyhow::Result<()> {
    let first = source.next().await?;
    let order = Order { sort: args.sort, reverse: false };
    window::run(&args.window, Pages::<Window>::new(order), first, source).await
}

impl Page for Window {
    const COMMAND: &'static str = "sysprobe probes";
    const VERSION: u32 = json::VERSION;
    type Of = Order;
    type Document<'a> = json::Numbers<'a>;

    fn of(earlier: &Snapshot, later: &Snapshot, _: &Order) -> Option<Self> {
        Some(Self::new(earlier, later))
    }

    fn name(_: Option<&Self>, _: &Order) -> String {
        "sysprobe's BPF programs".to_owned()
    }

    fn window(&self) -> Duration {
        self.length
    }

    fn body(&self, order: &Order, form: &Form) -> Body {
        view::body(self, *order, form)
    }

    fn document<'a>(window: Option<&'a Self>, order: &'a Order) -> json::Numbers<'a> {
        window.map(|window| json::Numbers::new(window, *order)).unwrap_or_default()
    }

    fn terms() -> Vec<(&'static str, &'static str)> {
        view::TERMS.to_vec()
    }

    fn bindings() -> &'static [Binding] {
        &keys::BINDINGS
    }

    fn command(order: &mut Order, command: Command) {
        match command {
            Command::NextSort => order.sort = order.sort.neighbour(1),
            Command::PreviousSort => order.sort = order.sort.neighbour(-1),
            Command::Reverse => order.reverse = !order.reverse,
            _ => {}
        }
    }
}
