//! The rehearsal: a provider with recorded answers.
//!
//! For people who have no model at hand. It listens on a loopback port and
//! speaks the OpenAI wire as a real server does, so everything else, the loop,
//! tools, jail, journal and MCP, is the real thing; only the answers are
//! recorded. Whoever shows a rehearsal says so.
//!
//! A script is JSON (`script.json` is the built-in one):
//!
//! ```json
//! {"format": 1, "model": "rehearsal", "task": "what is delegated", "pace_ms": 6,
//!  "turns": [{"think": "reasoning", "say": "words", "calls": [{"tool": "Read", "args": {"file_path": "a"}}]},
//!            {"say": "the final answer"}]}
//! ```
//!
//! Turn k answers the request that holds k assistant messages, so a repeated
//! request gets the same answer. `{home}` in an argument becomes the folder that
//! was given to [`Script::with_home`]. After the last turn it says that it is over.
//! The project that the built-in script works on is in [`PROJECT`].

mod server;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use server::Rehearsal;

/// The files of the scratch project, name and content: a program with one
/// mistake, and a test that shows it. Both run under any POSIX `sh`.
pub const PROJECT: [(&str, &str); 2] = [
    ("calc.sh", include_str!("project/calc.sh")),
    ("test.sh", include_str!("project/test.sh")),
];

/// A recorded conversation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    format: u32,
    /// The model's name.
    pub model: String,
    /// The task that the conversation belongs to.
    pub task: String,
    /// Pause between two pieces of an answer, so that it can be watched.
    #[serde(default)]
    pub pace_ms: u64,
    turns: Vec<Turn>,
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Turn {
    think: String,
    say: String,
    calls: Vec<Call>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    args: Map<String, Value>,
}

/// A script that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It is not the JSON that it should be.
    #[error("the script cannot be read: {0}; its format is described in the module `rehearsal`")]
    Syntax(#[from] serde_json::Error),
    /// It is of another format.
    #[error("the script is of format {0}; this version plays format 1")]
    Format(u32),
}

impl ScriptError {
    /// The stable word for it.
    pub fn code(&self) -> &'static str {
        match self {
            ScriptError::Syntax(_) => "script_syntax",
            ScriptError::Format(_) => "script_format",
        }
    }
}

impl Script {
    /// Reads a script.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let script: Script = serde_json::from_str(text)?;
        match script.format {
            1 => Ok(script),
            other => Err(ScriptError::Format(other)),
        }
    }

    /// The built-in script.
    pub fn builtin() -> Result<Self, ScriptError> {
        Script::parse(include_str!("script.json"))
    }

    /// Puts a folder where the arguments say `{home}`.
    pub fn with_home(mut self, home: &Path) -> Self {
        let home = home.to_string_lossy();
        for turn in &mut self.turns {
            for call in &mut turn.calls {
                for value in call.args.values_mut() {
                    if let Value::String(text) = value {
                        *text = text.replace("{home}", &home);
                    }
                }
            }
        }
        self
    }

    /// The answer to a request that holds `said` assistant messages.
    fn turn(&self, said: usize) -> Turn {
        let over = || Turn {
            say: "The rehearsal is over.".to_owned(),
            ..Turn::default()
        };
        self.turns.get(said).cloned().unwrap_or_else(over)
    }
}

#[cfg(test)]
mod tests;
