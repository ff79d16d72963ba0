//! The generated part of a command's page: its flags as in `--help`, and the columns of its tables.

use std::ffi::OsStr;
use std::io::{self, Write};

use anyhow::Context;
use clap::builder::StyledStr;
use clap::{Arg, Command, ValueEnum};

use crate::cli::command::top::views::View;

/// A longer list of values is left to `--help`.
const FEW: usize = 6;

/// Writes the part of the page of `name`, a command of `program`.
pub(super) fn write(out: &mut impl Write, program: &Command, name: &str) -> anyhow::Result<()> {
    let command = program.find_subcommand(name).with_context(|| format!("there is no command `{name}`"))?;
    for view in views(name) {
        columns(out, *view)?;
    }
    flags(out, command)?;
    Ok(())
}

/// The tables that a command shows.
fn views(command: &str) -> &'static [View] {
    match command {
        "top" => &[View::Cpu, View::Latency],
        "io" => &[View::Io],
        "net" => &[View::Net],
        _ => &[],
    }
}

fn columns(out: &mut impl Write, view: View) -> io::Result<()> {
    writeln!(out, "\nColumns of `{}`:\n\n| column | meaning | `--sort` |\n|---|---|---|", view.command())?;
    for (title, help, sort) in view.described_columns() {
        let sort = sort.and_then(|key| key.to_possible_value());
        let sort = sort.map(|value| format!("`{}`", value.get_name())).unwrap_or_default();
        writeln!(out, "| `{title}` | {help} | {sort} |")?;
    }
    Ok(())
}

fn flags(out: &mut impl Write, command: &Command) -> io::Result<()> {
    writeln!(out, "\n| flag | meaning |\n|---|---|")?;
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        writeln!(out, "| `{}` | {} |", typed(argument), meaning(argument))?;
    }
    writeln!(out)
}

/// The argument as a user types it: `-o, --output FORMAT`.
fn typed(argument: &Arg) -> String {
    let short = argument.get_short().map(|letter| format!("-{letter}, ")).unwrap_or_default();
    let long = argument.get_long().map(|word| format!("--{word}")).unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let value = argument.get_value_names().filter(|_| takes_value).map(|names| names.join(" "));
    let gap = if long.is_empty() || value.is_none() { "" } else { " " };
    format!("{short}{long}{gap}{}", value.unwrap_or_default())
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_help().map(StyledStr::to_string).unwrap_or_default();
    let mut text = help.replace('\n', " ").replace('|', "\\|");
    let takes_value = argument.get_action().takes_values();
    let values = argument.get_possible_values();
    let names: Vec<String> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
    let mut notes = Vec::new();
    if takes_value && (1..=FEW).contains(&names.len()) {
        notes.push(format!("one of {}", names.join(", ")));
    }
    let default: Vec<_> = argument.get_default_values().iter().filter_map(|value| value.to_str()).collect();
    if takes_value && !default.is_empty() && !argument.is_hide_default_value_set() {
        notes.push(format!("default `{}`", default.join(" ")));
    }
    if let Some(variable) = argument.get_env().and_then(OsStr::to_str) {
        notes.push(format!("environment variable `{variable}`"));
    }
    if !notes.is_empty() {
        text = format!("{text} ({})", notes.join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::{ArgAction, value_parser};

    use super::*;

    fn program() -> Command {
        let sort = Arg::new("sort").short('s').long("sort").value_name("COLUMN").default_value("cpu");
        let sort = sort.value_parser(["cpu", "io"]).help("Sort by this\ncolumn");
        let once = Arg::new("once").long("once").action(ArgAction::SetTrue).help("One window");
        let pod = Arg::new("pod").value_name("POD").value_parser(value_parser!(String)).help("a|b");
        let file = Arg::new("config").long("config").value_name("FILE").env("SYSPROBE_X").help("A file");
        Command::new("sysprobe").subcommand(Command::new("io").args([pod, sort, once, file]))
    }

    #[test]
    fn flags_are_as_they_are_typed() {
        let mut out = Vec::new();
        write(&mut out, &program(), "io").unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "| `POD` | a\\|b |",
            "| `-s, --sort COLUMN` | Sort by this column (one of `cpu`, `io`; default `cpu`) |",
            "| `--once` | One window |",
            "| `--config FILE` | A file (environment variable `SYSPROBE_X`) |",
            "| `FSYNC99` | p99 fsync latency | `fsync99` |",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn a_command_that_is_none_is_an_error() {
        assert!(write(&mut Vec::new(), &program(), "oi").is_err());
    }
}
