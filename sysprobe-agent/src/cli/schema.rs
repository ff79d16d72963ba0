//! The published form of `-o json`: a JSON Schema for each document, generated from the types that are
//! serialized, so that the two cannot differ. `sysprobe schema` prints a schema; a page of the documentation
//! lists them (`docs`).
//!
//! `generate` turns a type into a schema.

use std::io::{self, Write};

use clap::ValueEnum;
use schemars::{JsonSchema, Schema};

use crate::cli::command::blame::Blame;
use crate::cli::command::check;
use crate::cli::command::latency::Latency;
use crate::cli::command::probes::Window;
use crate::cli::command::top::json as tables;
use crate::cli::command::top::views::View;
use crate::cli::command::use_report::UseReport;
use crate::cli::page::{self, Page};

mod generate;
#[cfg(test)]
pub(crate) mod proof;

use generate::Head;

pub(crate) const NOTE: &str = "Schemas allow no unknown fields: validate a document with the schema of the \
                               program version that wrote it.";

pub(crate) const HELP: &str = "What does each field of `-o json` mean, and in which unit?\n\n\
    Example: validate a document with check-jsonschema\n  \
    sysprobe schema io > /tmp/io.schema.json && sysprobe io --once -o json > /tmp/io.json && \\\n  \
    check-jsonschema --schemafile /tmp/io.schema.json /tmp/io.json";

/// A document that `-o json` prints. What is said of each is its description, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A window of `sysprobe top`: CPU, throttling and waits for a CPU, by workload.
    Top,
    /// A window of `sysprobe io` and `sysprobe top --view io`: storage operations and requests to block
    /// devices, by workload.
    Io,
    /// A window of `sysprobe net` and `sysprobe top --view net`: traffic, retransmissions, round trips and
    /// drops, by workload.
    Net,
    /// A window of `sysprobe top --view latency`: every kind of wait side by side, by workload.
    TopLatency,
    /// A window of `sysprobe blame`: how long one workload waited for a CPU, why, and what ran meanwhile.
    Blame,
    /// A window of `sysprobe latency`: where data that one workload received was delayed before it was read.
    Latency,
    /// A window of `sysprobe use`: how much of each resource is in use, what waits, what fails, and which
    /// workload is behind it.
    Use,
    /// A window of `sysprobe probes`: what each BPF program costs, how full maps are, and what was lost.
    Probes,
    /// What `sysprobe check` finds: the host, the plan, what the kernel accepts of it, and the state of a
    /// running agent.
    Check,
}

/// Prints the schema of a document.
pub(crate) fn run(form: Form) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &form.schema())?;
    Ok(writeln!(out)?)
}

impl Form {
    pub(crate) fn schema(self) -> Schema {
        match self {
            Self::Top => self.table::<tables::WorkloadDocument<'_>>(View::Cpu),
            Self::Io => self.table::<tables::StorageDocument<'_>>(View::Io),
            Self::Net => self.table::<tables::NetworkDocument<'_>>(View::Net),
            Self::TopLatency => self.table::<tables::LatencyDocument<'_>>(View::Latency),
            Self::Blame => self.page::<Blame>(),
            Self::Latency => self.page::<Latency>(),
            Self::Use => self.page::<UseReport>(),
            Self::Probes => self.page::<Window>(),
            Self::Check => self.document::<check::Report>("sysprobe check", check::VERSION),
        }
    }

    /// The schema of a table's document with rows of type `W`.
    fn table<W: JsonSchema>(self, view: View) -> Schema {
        self.document::<tables::Document<'_, W>>(view.command(), tables::VERSION)
    }

    fn page<P: Page + 'static>(self) -> Schema {
        self.document::<page::document::Document<'_, P::Document<'static>>>(P::COMMAND, P::VERSION)
    }

    fn document<T: JsonSchema>(self, command: &str, version: u32) -> Schema {
        generate::document::<T>(&Head {
            id: format!("urn:sysprobe:schema:{}:{version}", self.name()),
            title: format!("{command} -o json"),
            description: self.description(),
            version,
        })
    }

    /// The name that a user types.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The description as a sentence.
    pub(crate) fn description(self) -> String {
        let value = self.to_possible_value();
        let help = value.and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default() + "."
    }
}

#[cfg(test)]
mod tests;
