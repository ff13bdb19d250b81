//! What a toolbox is made of, and why there may be none.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::super::Capability;
use crate::journal::{Journal, JournalError};
use crate::store::StoreError;
use crate::workspace::WorkspaceError;

/// Everything that a [`Toolbox`] is made of.
#[derive(Clone, Debug)]
pub struct ToolboxSetup {
    /// The workspace.
    pub workspace: PathBuf,
    /// What the run may do.
    pub capability: Capability,
    /// ULID of the run.
    pub run_id: String,
    /// State folder.
    pub state_dir: PathBuf,
    /// The journal in it.
    pub journal: Arc<Journal>,
    /// Deadline of a Bash call that names none.
    pub bash_timeout: Duration,
    /// Whether the model takes images.
    pub vision: bool,
    /// The binary that becomes cells and workers.
    pub launcher: jail::Launcher,
    /// This host and user.
    pub host: jail::Host,
    /// Which refusals of Bash are recorded.
    pub observe: jail::Observe,
}

/// Why the tools of a run cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolboxError {
    /// The workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The state folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A profile could not be resolved on this host.
    #[error(transparent)]
    Profile(#[from] jail::ProfileError),
    /// A jail could not be made.
    #[error(transparent)]
    Jail(#[from] jail::JailError),
    /// The binary could be changed by the run that it guards.
    #[error("delegate itself ({}) lies in the workspace, where a coding run could change it; run an installed copy, or work read-only", .program.display())]
    Inside {
        /// The binary.
        program: PathBuf,
    },
    /// The worker did not start.
    #[error("the tool worker did not start: {why}")]
    Worker {
        /// What it or the connection said.
        why: String,
    },
    /// The run has no usable id.
    #[error("{id:?} cannot name a run")]
    RunId {
        /// As given.
        id: String,
    },
}

impl ToolboxError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ToolboxError::Workspace(error) => error.code(),
            ToolboxError::Store(error) => error.code(),
            ToolboxError::Journal(error) => error.code(),
            ToolboxError::Profile(error) => error.code(),
            ToolboxError::Jail(error) => error.code(),
            ToolboxError::Inside { .. } => "binary_in_workspace",
            ToolboxError::Worker { .. } => "tool_worker",
            ToolboxError::RunId { .. } => "run_id",
        }
    }
}
