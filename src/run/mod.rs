//! One delegated run: turns, tools, budgets, the end.
//!
//! [`step::Loop`] decides, as a pure function of what has happened; [`drive`]
//! does what it says with any [`Model`] and any [`Tools`]; `execute` gives it
//! the real ones and is what both faces call. It streams [`RunEvent`]s and
//! gives one [`RunOutcome`].
//!
//! Who calls it has opened the workspace, holds its lease and has dealt with a
//! pending journal before: these refuse a run, and a refused run has no outcome.

mod calls;
mod driver;
mod execute;
pub mod prompt;
mod prune;
mod record;
mod repeat;
mod rules;
pub mod step;

pub use driver::{Drive, Model, Tools, drive};
pub use execute::{Deps, execute};
pub use rules::{Action, Budgets, Done, End, Event, Names, Planned, Rules, Unfit};

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

/// One executed tool call. A call that was refused before it ran (unknown tool,
/// arguments that do not parse or fit, a tool outside the capability) is none;
/// one that ran and was refused its path is one that failed.
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
    /// Stable code of a local failure, such as `jail_floor`.
    #[serde(default)]
    pub error_code: Option<String>,
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
    /// `arguments_repaired`, `text_tool_call_recovered`, `tool_renamed`,
    /// `structured_mode`.
    pub flags: Vec<String>,
    /// What the loop did besides.
    #[serde(default)]
    pub facts: LoopFacts,
}

/// Counts and notes of the loop; most fields are results of
/// `delegate_to_local_agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopFacts {
    /// The turn limit.
    pub max_turns: u32,
    /// Why the last answer stopped: `end_turn`, `tool_use`, `max_tokens`,
    /// `content_filter`, `turn_limit_pending_tools` or `unknown`.
    pub stop_reason: Option<String>,
    /// Tool calls asked for, whether they ran or not.
    pub tool_calls: u32,
    /// Calls that could not be run: cut off, unknown tool, wrong arguments.
    pub malformed_calls: u32,
    /// Calls answered by a pointer to an earlier identical one.
    pub deduped_calls: u32,
    /// Tool results taken out of the conversation to save room.
    pub evicted_tool_results: u32,
    /// Times the model was asked again.
    pub nudges: u32,
    /// What it said to that, where it only said the same again.
    pub nudge_reply: Option<String>,
    /// Whether it went back to work after being asked again.
    pub resumed_after_nudge: bool,
    /// Whether `final_text` is the text of the last answer.
    pub terminal_text: bool,
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
