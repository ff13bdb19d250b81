//! What a call did, as its jail saw it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::Access;

/// How a jailed command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was killed at its deadline.
    Deadline,
    /// It was killed because the caller asked.
    Cancelled,
}

impl Exit {
    /// The exit status a shell would show: the code itself, 128+n for a
    /// signal, 124 at the deadline, 130 when cancelled.
    pub fn status(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
            Exit::Deadline => 124,
            Exit::Cancelled => 130,
        }
    }
}

/// One refused access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// What was asked for: absolute path, or `unix:PATH`.
    pub path: PathBuf,
    /// What was wanted of it.
    pub access: Access,
    /// The operation in the kernel's words: `open`, `mkdir`, `rename`, `connect`.
    pub operation: String,
    /// How often.
    pub count: u32,
}

/// What one call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Wall-clock time from spawn to the tree's death.
    pub wall: Duration,
    /// CPU time of the whole tree.
    pub cpu: Duration,
    /// Largest resident set of one process of the tree, in bytes.
    pub max_rss: u64,
}

/// What one call did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How it ended.
    pub exit: Exit,
    /// Processes still alive when the command ended, all killed.
    pub survivors: u32,
    /// Refused accesses, in the order of the first refusal; at most 256.
    pub denials: Vec<Denial>,
    /// What it used.
    pub spent: Spent,
}
