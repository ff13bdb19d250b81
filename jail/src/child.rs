//! What is run in a cell, and how it is waited for or ended.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// A command for a [`Cell`](crate::Cell).
#[derive(Debug)]
pub struct Command {
    /// Program and arguments; the program is looked up in the `PATH` of the
    /// policy, inside the jail, unless it holds a slash.
    pub argv: Vec<OsString>,
    /// Added to the environment of the policy; a name in both is replaced.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts; the policy's `cwd` when absent.
    pub cwd: Option<PathBuf>,
    /// Descriptor 0 of the command.
    pub stdin: OwnedFd,
    /// Descriptor 1 of the command.
    pub stdout: OwnedFd,
    /// Descriptor 2 of the command.
    pub stderr: OwnedFd,
    /// Wall-clock bound; the policy's own when absent.
    pub deadline: Option<Duration>,
}

/// The program that becomes the first process of a cell: a fresh image of the
/// binary that calls [`enter_if_asked`](crate::enter_if_asked) first thing in
/// `main`, so that no memory of the caller is in the cell.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Absolute path of that binary.
    pub program: PathBuf,
}
