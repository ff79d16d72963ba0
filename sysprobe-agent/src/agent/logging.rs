//! Structured logs on standard error.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

pub(super) fn start(log: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.filter)
        .with_context(|| format!("log.filter {:?} is neither a log level nor filter directives", log.filter))?
        // kube logs every failed request as an error. The caller gets the error too, and logs it less often.
        .add_directive("kube_client::client::builder=off".parse().context("silencing the client")?);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written is lost. To report that on standard error, which has just failed,
        // would end the agent.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    let result = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    result.map_err(anyhow::Error::from_boxed).context("starting the log")
}
