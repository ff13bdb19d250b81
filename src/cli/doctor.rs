//! Stands here until its room is merged.

use std::process::ExitCode;

use super::exit::Exit;

/// Flags of `delegate doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Says that the room is not there.
pub fn main(_args: Args) -> ExitCode {
    eprintln!("delegate: the doctor is not part of this build; use a released build.");
    Exit::Usage.into()
}
