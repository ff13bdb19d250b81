//! Why a jail could not be made or used.

use std::io;
use std::path::PathBuf;

use crate::guarantee::{Guarantee, Held, Strength};

/// Why a jail could not be made or used. Nothing ran when one of these comes
/// from [`Plan::open`](crate::Plan::open) or [`Cell::spawn`](crate::Cell::spawn).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JailError {
    /// The kernel or the user cannot give what the policy asks for.
    #[error("{}", below_floor(.missing))]
    BelowFloor {
        /// Each guarantee with what was wanted and what is held.
        missing: Vec<(Guarantee, Strength, Held)>,
    },
    /// A step of the plan failed.
    #[error(
        "cannot {step}: {source}; nothing was run (`delegate jail doctor` says what this machine allows)"
    )]
    Step {
        /// The step in words, path included.
        step: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A granted path is no longer the object that the policy was built on.
    #[error("{} changed between policy and jail, so it is not shown; run again", .path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// The program could not be executed inside the jail.
    #[error("cannot execute {}: {source}", .program.display())]
    Exec {
        /// As asked for.
        program: PathBuf,
        /// What the kernel said; `NotFound` when no folder of `PATH` has it.
        source: io::Error,
    },
    /// The command cannot be run as given.
    #[error("the command cannot be run: {what}")]
    Command {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A call is still running in this cell.
    #[error("the cell is busy with another call; open a second cell to run at the same time")]
    Busy,
    /// The cell died or its protocol broke.
    #[error("the jail died: {what}; everything in it was killed")]
    Gone {
        /// How it was noticed.
        what: String,
    },
    /// This operating system has no backend.
    #[error("no jail backend for this operating system; nothing was run")]
    Unsupported,
}

impl JailError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            JailError::BelowFloor { .. } => "jail_below_floor",
            JailError::Step { .. } => "jail_step_failed",
            JailError::Changed { .. } => "jail_path_changed",
            JailError::Exec { .. } => "jail_exec_failed",
            JailError::Command { .. } => "jail_command_invalid",
            JailError::Busy => "jail_busy",
            JailError::Gone { .. } => "jail_gone",
            JailError::Unsupported => "jail_unsupported",
        }
    }
}

fn below_floor(missing: &[(Guarantee, Strength, Held)]) -> String {
    let parts: Vec<String> = missing
        .iter()
        .map(|(guarantee, wanted, held)| {
            format!(
                "{guarantee} must be {wanted} but is {} ({})",
                held.strength, held.by
            )
        })
        .collect();
    format!(
        "this machine cannot enforce what the profile promises: {}; nothing was run (`delegate jail doctor` says what to change)",
        parts.join("; ")
    )
}
