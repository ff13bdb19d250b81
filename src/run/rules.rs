//! What goes into the loop and what comes out of it, as plain data.

use crate::provider::{ErrorClass, ProviderError, ToolUse, TurnReply};
use crate::tools::{ToolCall, ToolOutput};

use super::Outcome;

/// Limits of one run, frozen at its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Model answers.
    pub max_turns: u32,
    /// Output bound of one answer.
    pub max_output_tokens: u32,
    /// Times that an empty or announcing answer is asked again.
    pub max_nudges: u32,
    /// Newest messages with tool results that pruning leaves whole.
    pub keep_tool_results: usize,
    /// Whether the product of the run is its answer: the countdown then asks
    /// for a report.
    pub report_only: bool,
    /// Budgets of the `deepseek` tools.
    pub budgets: Option<Budgets>,
}

/// Budgets of one run of the `deepseek` tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Tool calls in one answer.
    pub calls_per_reply: usize,
    /// Tool calls in the run.
    pub calls_per_run: usize,
    /// Tokens of all requests and answers.
    pub tokens: u64,
    /// Bytes of the conversation.
    pub history_bytes: usize,
    /// Bytes that file changes ask for.
    pub mutation_bytes: usize,
}

impl Budgets {
    /// Those of the specification.
    pub const DEEPSEEK: Budgets = Budgets {
        calls_per_reply: 32,
        calls_per_run: 128,
        tokens: 1_000_000,
        history_bytes: 12 << 20,
        mutation_bytes: 64 << 20,
    };
}

/// A call that does not fit any tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// What the model is told.
    pub text: String,
    /// Set when it fits a tool that this run may not use: one sentence.
    pub refused: Option<String>,
}

/// Names and argument checks of the tools of a run.
pub trait Names {
    /// The call under its canonical name, checked.
    fn canonical(&self, call: &ToolUse) -> Result<ToolCall, Unfit>;
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The run begins.
    Start,
    /// The model answered.
    Reply(TurnReply),
    /// It did not, after all tries.
    ModelFailed(ProviderError),
    /// Every call of [`Action::Call`] has ended.
    Results(Vec<Done>),
    /// The caller cancelled; these calls had ended, or were cut short.
    Cancelled(Vec<Done>),
    /// The time of the run is up; these calls had ended, or were cut short.
    OutOfTime(Vec<Done>),
}

/// A call to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its place among the calls of the answer.
    pub index: usize,
    /// What to run.
    pub call: ToolCall,
    /// Whether it may run beside its neighbours.
    pub parallel: bool,
}

/// A call that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// Its place among the calls of the answer.
    pub index: usize,
    /// What came of it.
    pub output: ToolOutput,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Send the conversation to the model.
    Ask {
        /// The turn, 1-based; the same twice when the conversation shrank.
        turn: u32,
    },
    /// Run these in order, neighbours that are `parallel` at once.
    Call(Vec<Planned>),
    /// The run has ended.
    End(End),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Class of the failure.
    pub class: Option<ErrorClass>,
    /// Text of the failure.
    pub text: Option<String>,
    /// The answer, or the last text before it failed.
    pub final_text: Option<String>,
}
