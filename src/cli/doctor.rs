//! `delegate doctor`: what this kernel and this user can enforce.

use std::process::ExitCode;

/// Flags of `delegate doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Examines this machine.
pub fn main(args: Args) -> ExitCode {
    let _ = args.json;
    ExitCode::SUCCESS
}
