//! The seven tools: Read Write Edit Bash Glob Grep NotebookEdit.
//!
//! File tools run in a jailed worker process that holds the workspace by
//! descriptor; each Bash call is a jail of its own. [`Toolbox`] is the only way
//! in: it names, checks, journals and runs.

mod bash;
mod client;
pub mod names;
mod proto;
mod specs;
mod start;
mod toolbox;
mod worker;

pub use names::canonical;
pub use specs::specs;
pub use toolbox::{Toolbox, ToolboxError, ToolboxSetup};
pub use worker::worker_main;

use jail::Denial;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::provider::Image;

/// What a run may do; chosen by the call and frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// All seven tools.
    Coding,
    /// Read, Glob and Grep under a policy that cannot write.
    Readonly,
}

/// A call that passed the naming and argument checks.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Canonical name.
    pub tool: &'static str,
    /// Arguments under their canonical names, types checked.
    pub args: Map<String, Value>,
    /// Whether name or parameter names had to be mapped.
    pub renamed: bool,
    /// `read_file`, `write_file` or `run_bash` when it was called by that name:
    /// the result then has the form that agent files written for it expect.
    pub alias: Option<&'static str>,
}

/// A file change that the journal holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutation {
    /// 32 lowercase hex digits.
    pub transaction_id: String,
    /// Tool that made it.
    pub tool: String,
    /// Path relative to the workspace.
    pub path: String,
    /// `committed` or `uncertain`.
    pub status: String,
    /// What went wrong after the change, if anything.
    pub warning: Option<String>,
    /// Unified diff, at most 200 lines, when both sides are text.
    pub diff: Option<String>,
}

/// What a Bash call did besides its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BashFacts {
    /// Exit status as a shell shows it; `None` when it did not start.
    pub exit_code: Option<i32>,
    /// Killed at its deadline.
    pub timed_out: bool,
    /// Processes killed after the command ended.
    pub survivors: u32,
    /// Accesses that the jail refused.
    pub denials: Vec<Denial>,
}

/// What a tool answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Whether it succeeded; for Bash, whether it ran and returned 0.
    pub ok: bool,
    /// The text for the model.
    pub text: String,
    /// An image for a model with vision.
    pub image: Option<Image>,
    /// What was journaled.
    pub mutation: Option<Mutation>,
    /// Facts of a Bash call.
    pub bash: Option<BashFacts>,
    /// Set when policy refused (outside the workspace, protected path, not in
    /// the capability): one sentence for people.
    pub refused: Option<String>,
}
