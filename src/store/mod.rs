//! The state folder: private paths in it and the one database.
//!
//! Called by `workspace` (locks), `journal` (records) and later `jobs`. The
//! folder is a parameter everywhere: this room reads no environment variable
//! and creates nothing before it is needed. Folders are 0700, files 0600, and
//! anything looser is refused rather than mended, because somebody else may
//! have read or written it already.

mod database;
mod private;

pub use database::Database;
pub use private::{check_folder, make_folder, open_file};

use std::io;
use std::path::{Path, PathBuf};

/// Where everything that outlives a process is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Names a state folder; touches nothing.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        StateDir { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.root.join("delegate.db")
    }

    /// Execution leases, one file a workspace.
    pub fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    /// Pre-images that are too large for the database.
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// The private home of Bash for a workspace, by the hex digest of its identity.
    pub fn home(&self, identity: &str) -> PathBuf {
        self.root.join("homes").join(identity)
    }

    /// Whole outputs of one run, for as long as the run lasts.
    pub fn run(&self, run_id: &str) -> PathBuf {
        self.root.join("runs").join(run_id)
    }
}

/// Why the state folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A folder or file in it could be read or changed by somebody else.
    #[error("{} is not safe to use: {what}; make it yours alone (`chmod -R go-rwx`) after looking at what is in it", .path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The file system refused.
    #[error("cannot {act} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        act: &'static str,
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The database is damaged, locked for too long, or not a database.
    #[error("the database {} cannot be used: {source}", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A newer delegate wrote it.
    #[error("the database {} has layout {found}, this delegate knows up to {known}; use the newer delegate", .path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Layout found.
        found: i64,
        /// Newest layout known here.
        known: i64,
    },
}

impl StoreError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::Unsafe { .. } => "state_unsafe",
            StoreError::Io { .. } => "state_io",
            StoreError::Database { .. } => "state_database",
            StoreError::TooNew { .. } => "state_too_new",
        }
    }
}
