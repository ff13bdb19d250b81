//! `delegate config show`.

use std::io::Write;
use std::process::ExitCode;

use clap::Subcommand;

use super::exit::Exit;
use super::host;
use super::text;
use crate::config::{Config, Shown};

/// Flags of `delegate config`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print every value with where it came from; secrets are masked.
    Show {
        /// One JSON array instead of a table.
        #[arg(long)]
        json: bool,
    },
}

/// Prints the configuration.
pub fn main(args: Args) -> ExitCode {
    let Verb::Show { json } = args.command;
    let config = match host::sources().and_then(Config::load) {
        Ok(config) => config,
        Err(error) => {
            host::say(&format!("delegate: {error}"));
            return Exit::Usage.into();
        }
    };
    let lines = config.show();
    let text = if json {
        match serde_json::to_string_pretty(&lines) {
            Ok(text) => text + "\n",
            Err(error) => {
                host::say(&format!("delegate: {error}"));
                return Exit::Failed.into();
            }
        }
    } else {
        table(&lines)
    };
    host::print(&text)
}

fn table(lines: &[Shown]) -> String {
    let width = |of: fn(&Shown) -> &str| {
        lines
            .iter()
            .map(|line| of(line).chars().count().min(48))
            .max()
            .unwrap_or(0)
    };
    let (names, values) = (width(|line| &line.name), width(|line| &line.value));
    let mut table = Vec::new();
    let mut group = "";
    for line in lines {
        if line.group != group {
            group = line.group;
            let _ = writeln!(table, "[{group}]");
        }
        let _ = writeln!(
            table,
            "  {:names$}  {:values$}  {}",
            text::one_line(&line.name, 200),
            text::one_line(&line.value, 400),
            text::one_line(&line.origin, 200),
        );
    }
    String::from_utf8_lossy(&table).into_owned()
}
