//! What the server needs of the rooms below it.
//!
//! The binary gives it [`super::house::House`]; the tests of the protocol
//! face give it a fake, so that they need neither jail nor network.

use std::any::Any;
use std::path::PathBuf;
use std::pin::Pin;

use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::run::{RunEvent, RunOutcome, RunSpec};
use crate::tools::Capability;

/// A future on the heap, so that [`Rooms`] can be a trait object.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A call of `delegate_to_local_agent`.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentOrder {
    /// Name of the agent file.
    pub agent_name: String,
    /// The task, verbatim.
    pub task: String,
    /// Folder to work in; relative to the server's working directory.
    pub workdir: String,
    /// Turn limit; 0 or less means the configured one.
    pub max_turns: i64,
    /// Model; empty means the configured one.
    pub model: String,
    /// Output bound.
    pub max_tokens: Option<i64>,
}

/// A call of `delegate_to_deepseek` or `delegate_to_deepseek_readonly`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeepseekOrder {
    /// The task.
    pub task: String,
    /// Additional context, may be empty.
    pub context: String,
    /// `flash` or `pro`.
    pub profile: String,
    /// Which of the two tools was called.
    pub capability: Capability,
}

/// A run that may start.
pub struct Prepared {
    /// What to run.
    pub spec: RunSpec,
    /// Where the agent's file was found: `project-agent`, `project-skill`, `global`.
    pub agent_source: Option<String>,
    /// Notes for the caller, such as changes of earlier runs still to be looked at.
    pub notices: Vec<String>,
    /// Held until the run has ended.
    pub held: Box<dyn Any + Send>,
}

/// Why a call did not become a run, or a question got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// `DEEPSEEK_MODE=off`.
    #[error("DeepSeek delegation is disabled (DEEPSEEK_MODE=off); do the work yourself")]
    ModeOff,
    /// The configuration is missing something or wrong.
    #[error("{0}")]
    NotConfigured(String),
    /// The call itself cannot be carried out.
    #[error("{0}")]
    Invalid(String),
    /// The agent does not exist.
    #[error("{text}")]
    NoAgent {
        /// Names the places looked at.
        text: String,
        /// What there is instead.
        available_hint: String,
    },
    /// Another run holds the slot or the workspace.
    #[error("{0}")]
    Busy(String),
    /// A pending journal, a lock that cannot be used, a workspace that changed.
    #[error("{0}")]
    Blocked(String),
    /// The jail cannot be made as strong as the policy asks.
    #[error("{0}")]
    Jail(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl Trouble {
    /// The stable `error_code`.
    pub fn code(&self) -> &'static str {
        match self {
            Trouble::ModeOff => "mode_off",
            Trouble::NotConfigured(_) => "not_configured",
            Trouble::Invalid(_) => "invalid_input",
            Trouble::NoAgent { .. } => "agent_not_found",
            Trouble::Busy(_) => "busy",
            Trouble::Blocked(_) => "blocked",
            Trouble::Jail(_) => "jail",
            Trouble::Other(_) => "internal",
        }
    }
}

/// What `ping` says of the DeepSeek side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `auto`, `off` or `invalid`.
    pub mode: String,
    /// Workspace and active model, or why there is none.
    pub setup: Result<(PathBuf, String), String>,
}

/// A journaled change that nobody has acknowledged yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PendingChange {
    /// 32 lowercase hex digits.
    pub transaction_id: String,
    /// Tool that made it.
    pub tool: String,
    /// Path relative to the workspace.
    pub path: String,
    /// Digest of the content that was written; null for a removal.
    pub sha256: Option<String>,
    /// `committed`, `superseded` or `uncertain`, checked against the disk just now.
    pub status: String,
    /// What went wrong after the change.
    pub warnings: Vec<String>,
    /// Place in the order of all changes.
    pub order: i64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The run that made it.
    pub run_id: String,
    /// Digest of the content before; null where there was no file.
    pub sha256_before: Option<String>,
}

/// What an acknowledgement did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Removed from the journal's pending list, sorted.
    pub acknowledged: Vec<String>,
    /// Still pending.
    pub pending: Vec<String>,
    /// Well-formed IDs that are not pending in this workspace, sorted.
    pub unknown: Vec<String>,
}

/// One agent of the global folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentEntry {
    /// Its name.
    pub name: String,
    /// At most 200 characters.
    pub description: String,
    /// The `model` line of its file, which does not choose the model.
    pub declared_model: Option<String>,
    /// Its file.
    pub path: String,
}

/// The agents that can be called from everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentList {
    /// How many.
    pub count: usize,
    /// The folder.
    pub agents_dir: String,
    /// Sorted by name.
    pub agents: Vec<AgentEntry>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How the model server answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct BackendStatus {
    /// Endpoint, without credentials.
    pub configured_url: Option<String>,
    /// Model for calls that name none.
    pub default_model: Option<String>,
    /// Folder of the global agents.
    pub agents_dir: String,
    /// Body of the liveness answer, at most 100 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness: Option<String>,
    /// HTTP status of the liveness answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_status: Option<u16>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_ms: Option<u64>,
    /// First 20 models that the server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_models: Option<Vec<String>>,
    /// Why the models are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models_error: Option<String>,
    /// What kept the server from answering, or what is not configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The rooms below, as the server sees them. Methods that are not `Boxed` may
/// block and are called from a blocking thread.
pub trait Rooms: Send + Sync + 'static {
    /// Makes a run of an agent call: configuration, agent file, workspace, lease.
    fn agent(&self, order: &AgentOrder) -> Result<Prepared, Trouble>;

    /// Makes a run of a DeepSeek call: mode, configuration, workspace, lease, journal.
    fn deepseek(&self, order: &DeepseekOrder) -> Result<Prepared, Trouble>;

    /// Runs to the end. Ends soon after `cancel` fires, with everything that
    /// it started dead.
    fn execute<'a>(
        &'a self,
        spec: RunSpec,
        events: &'a mut (dyn FnMut(RunEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> Boxed<'a, Result<RunOutcome, Trouble>>;

    /// For `ping`; must not fail, block for long or need a key.
    fn standing(&self) -> Standing;

    /// Changes not yet acknowledged in the DeepSeek workspace.
    fn pending(&self) -> Result<Vec<PendingChange>, Trouble>;

    /// Acknowledges changes of the DeepSeek workspace.
    fn acknowledge(&self, ids: &[String]) -> Result<Acknowledged, Trouble>;

    /// The global agents.
    fn agents(&self) -> AgentList;

    /// Asks the model server how it is.
    fn status(&self) -> Boxed<'_, BackendStatus>;

    /// Keeps an answer that is too long for a result; says where.
    fn keep_answer(&self, run_id: &str, text: &str) -> Option<PathBuf>;
}
