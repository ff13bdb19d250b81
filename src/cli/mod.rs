//! A person's face: one file a subcommand.

pub mod doctor;
pub mod jail;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Hand agent work to other models, every tool call in a kernel-enforced jail.
#[derive(Debug, Parser)]
#[command(name = "delegate", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run, explain or examine jails.
    Jail(jail::Args),
    /// Say what this machine can enforce and how delegate is set up.
    Doctor(doctor::Args),
}

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Jail(args) => jail::main(args),
        Command::Doctor(args) => doctor::main(args),
    }
}
