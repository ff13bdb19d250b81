//! `delegate run`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::exit::Exit;

/// Flags of `delegate run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The task, for the model.
    pub task: String,
    /// Agent definition to run as (`.claude/agents/NAME.md` and its like).
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Read, Glob and Grep only, under a policy that cannot write.
    #[arg(long)]
    pub readonly: bool,
    /// Folder to work in.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub workspace: PathBuf,
    /// Where the model is, such as http://127.0.0.1:8080/v1.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Protocol spoken there; else by the model's name.
    #[arg(long, value_name = "WIRE")]
    pub wire: Option<WireArg>,
    /// Model name.
    #[arg(long, value_name = "M")]
    pub model: Option<String>,
    /// Environment variable that holds the key.
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// A setting; `delegate config show` lists them.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The last line of stdout is the outcome as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The wires by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WireArg {
    /// OpenAI Chat Completions.
    Openai,
    /// Anthropic Messages.
    Anthropic,
}

/// Runs a task.
pub fn main(_args: Args) -> ExitCode {
    Exit::Usage.into()
}
