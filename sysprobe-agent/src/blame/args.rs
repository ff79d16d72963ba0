//! The flags of `sysprobe blame` beyond those that every command with windows has.

use clap::{Args, builder::NonEmptyStringValueParser};

use crate::show::args::WindowArgs;

#[derive(Args, Clone, Debug)]
pub struct BlameArgs {
    /// A pod, or NAMESPACE/POD; else a systemd unit or a cgroup's path. The beginning is enough if no other begins so.
    #[arg(value_name = "POD", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Look for the pod in this namespace only.
    #[arg(short, long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub namespace: Option<String>,
    /// Only this container of the pod, not the sum of all.
    #[arg(long, value_name = "CONTAINER", value_parser = NonEmptyStringValueParser::new())]
    pub container: Option<String>,
    #[command(flatten)]
    pub window: WindowArgs,
}

pub const EXAMPLE: &str = "Example: who made nginx wait for a CPU in the next ten seconds\n  \
    sysprobe blame nginx.service --once --interval 10";
