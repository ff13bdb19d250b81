//! One delegated run: turns, tools, budgets, the end.
//!
//! [`execute`](fn@execute) is called by both faces; it streams [`RunEvent`]s
//! and gives one [`RunOutcome`].

use std::path::PathBuf;

use jail::{Denial, Enforcement};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::RunSettings;
use crate::provider::{Endpoint, ErrorClass, Usage};
use crate::tools::{Capability, Mutation};

/// Everything that decides a run; frozen at its start.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// Task text as given.
    pub task: String,
    /// Additional context, may be empty.
    pub context: String,
    /// What it may do.
    pub capability: Capability,
    /// Canonical workspace.
    pub workspace: PathBuf,
    /// The model.
    pub endpoint: Endpoint,
    /// Settings.
    pub settings: RunSettings,
    /// Agent body and name, for `delegate_to_local_agent` and `--agent`.
    pub agent: Option<AgentPrompt>,
    /// Which tool set asked: decides what a pending journal does.
    pub toolset: Toolset,
    /// State folder (journal, homes, locks).
    pub state_dir: PathBuf,
    /// First line of the system prompt, `MODE:LOCAL` for agents.
    pub mode_tag: Option<String>,
}

/// An agent definition as the loop needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentPrompt {
    /// Its name.
    pub name: String,
    /// Body of its file.
    pub body: String,
    /// Restriction of the tool set, if the file has one.
    pub tools: Option<Vec<String>>,
}

/// Which family of MCP tools started the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Toolset {
    /// `delegate_to_local_agent` and `delegate run`.
    Agents,
    /// `delegate_to_deepseek*`: a pending journal blocks.
    Deepseek,
}

/// One executed tool call; refused and malformed calls are not executions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Canonical tool name.
    pub tool: String,
    /// Arguments as run, canonical names.
    pub args: Map<String, Value>,
    /// Whether the tool succeeded.
    pub ok: bool,
    /// Its text, at most 50,000 characters.
    pub output: String,
    /// Turn, 1-based.
    pub turn: u32,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The loop ended with an answer.
    Completed,
    /// It ended with an error.
    Failed,
    /// The caller stopped it.
    Cancelled,
}

/// A refusal, by the tools or by the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Turn, 1-based.
    pub turn: u32,
    /// Tool whose call it was.
    pub tool: String,
    /// `tool` (before anything ran) or `kernel`.
    pub by: String,
    /// One sentence for people.
    pub what: String,
}

/// Counts of the Bash calls of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashSummary {
    /// Calls that ran.
    pub calls: u32,
    /// Calls that did not return 0.
    pub failures: Vec<BashFailure>,
    /// `ok`, `nonzero_exit`, `tool_error` or `unknown`; `None` before the first.
    pub last_status: Option<String>,
    /// Last known exit status.
    pub last_exit: Option<i32>,
}

/// One Bash call that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashFailure {
    /// Turn, 1-based.
    pub turn: u32,
    /// `nonzero_exit`, `tool_error` or `unknown`.
    pub status: String,
    /// Exit status where there was one.
    pub exit_code: Option<i32>,
}

/// The result of a run; serialised as it stands for `--json` and as the core
/// of `structuredContent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// How it ended.
    pub outcome: Outcome,
    /// Class of the failure.
    pub error_class: Option<ErrorClass>,
    /// Text of the failure.
    pub error_text: Option<String>,
    /// The answer; reasoning and tool markup are no part of it.
    pub final_text: Option<String>,
    /// Sums over the answers that reported usage; `None` when none did.
    pub usage: Option<Usage>,
    /// Tool calls that ran, in order.
    pub executions: Vec<Execution>,
    /// ULID of the run.
    pub run_id: String,
    /// Model answers received.
    pub turns: u32,
    /// Journaled changes, in order.
    pub mutations: Vec<Mutation>,
    /// What the kernel enforced.
    pub enforcement: Option<Enforcement>,
    /// What was refused.
    pub refusals: Vec<Refusal>,
    /// Bash counts.
    pub bash: BashSummary,
    /// Model that answered last.
    pub model: Option<String>,
    /// Wall-clock seconds.
    pub duration_seconds: f64,
    /// `arguments_repaired`, `text_tool_call_recovered`, `tool_renamed`.
    pub flags: Vec<String>,
}

/// What happens while a run is under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The jail is open; the run has its id.
    Started {
        /// ULID.
        run_id: String,
        /// What the kernel enforces.
        enforcement: Enforcement,
    },
    /// A turn begins.
    Turn {
        /// 1-based.
        turn: u32,
        /// The limit.
        max_turns: u32,
    },
    /// Visible text of the model, as it arrives.
    Text {
        /// A piece.
        text: String,
    },
    /// A try failed; another comes.
    Retrying {
        /// Class of the failure.
        class: ErrorClass,
        /// Milliseconds until then.
        wait_ms: u64,
    },
    /// A tool call starts.
    ToolStarted {
        /// Turn.
        turn: u32,
        /// Canonical tool.
        tool: String,
        /// One line for people: path or command, cut at 200 characters.
        summary: String,
    },
    /// A tool call ended.
    ToolFinished {
        /// Turn.
        turn: u32,
        /// Canonical tool.
        tool: String,
        /// Whether it succeeded.
        ok: bool,
        /// One line for people.
        summary: String,
        /// Accesses that the jail refused.
        denials: Vec<Denial>,
        /// The refusal, when the tool itself refused.
        refused: Option<String>,
        /// What was journaled.
        mutation: Option<Mutation>,
        /// Milliseconds.
        wall_ms: u64,
    },
    /// Nothing happened for a while, and the run is alive.
    Alive {
        /// Milliseconds since the start.
        elapsed_ms: u64,
    },
}
