//! Settings with where each came from.
//!
//! Layers, the first that says something wins: flag, environment,
//! `~/.config/delegate/config.toml`, the legacy `~/.deepseek-mcp/config.json`
//! (for the `deepseek` tools only), default. Everything here is pure and takes
//! environment and file texts by parameter; [`Sources::read`] is the only
//! place that touches the disk. Every room may call this one.

mod credential;
mod env;
mod error;
mod files;
mod gateway;
mod keys;
mod layers;
mod legacy;
mod legacy_json;
mod models;
mod own;
mod resolve;
mod show;
mod target;
mod url;

pub use credential::{Reasoning, is_deepseek_host};
pub use error::ConfigError;
pub use files::{FileText, Sources};
pub use keys::{KEYS, Key, Kind, Setting};
pub use layers::{Config, Mode, Origin, Sourced};
pub use legacy::Legacy;
pub use models::{ModelFacts, ModelTable};
pub use resolve::{AgentAsk, Profile, Target, endpoint_for_agent, endpoint_for_deepseek};
pub use show::Shown;
pub use target::{Endpoint, ToolMode, Wire};
pub use url::is_loopback;

use std::time::Duration;

/// Settings of one run; the names are those of `--set`, of the configuration
/// file and of the replay corpus. Times in the file are milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSettings {
    /// `max_attempts`: tries for one model call, the first included.
    pub max_attempts: u32,
    /// `retry_base_ms`: first wait of our own backoff.
    pub retry_base: Duration,
    /// `retry_cap_ms`: longest wait of our own backoff; a wait that the server
    /// names is obeyed up to 60 s.
    pub retry_cap: Duration,
    /// `connect_timeout_ms`.
    pub connect_timeout: Duration,
    /// `first_byte_timeout_ms`: request sent to first byte of the answer's body.
    pub first_byte_timeout: Duration,
    /// `idle_timeout_ms`: longest gap between bytes; comments count as life.
    pub idle_timeout: Duration,
    /// `max_turns`.
    pub max_turns: u32,
    /// `max_output_tokens`.
    pub max_output_tokens: u32,
    /// `context_window`, tokens.
    pub context_window: u32,
    /// `stream`.
    pub stream: bool,
    /// `vision`: the model takes images.
    pub vision: bool,
    /// `progress_interval_ms`: longest silence towards the host while working.
    pub progress_interval: Duration,
    /// `bash_timeout_ms`: default deadline of one Bash call.
    pub bash_timeout: Duration,
    /// `max_run_seconds`: wall clock of the whole run.
    pub max_run: Duration,
    /// `tool_mode`: `auto`, `native` or `structured`.
    pub tool_mode: ToolMode,
    /// `observe`: which refused accesses of Bash calls are reported.
    pub observe: jail::Observe,
    /// `max_nudges`: how often a run asks again after an empty answer or one
    /// that only announces work.
    pub max_nudges: u32,
    /// `keep_tool_results`: newest messages with tool results that pruning
    /// leaves whole; 0 never prunes.
    pub keep_tool_results: u32,
}

impl Default for RunSettings {
    fn default() -> Self {
        RunSettings {
            max_attempts: 4,
            retry_base: Duration::from_millis(1_000),
            retry_cap: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            first_byte_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(300),
            max_turns: 50,
            max_output_tokens: 16_384,
            context_window: 131_072,
            stream: true,
            vision: false,
            progress_interval: Duration::from_secs(5),
            bash_timeout: Duration::from_secs(120),
            max_run: Duration::from_secs(18_000),
            tool_mode: ToolMode::Auto,
            observe: jail::Observe::Writes,
            max_nudges: 1,
            keep_tool_results: 6,
        }
    }
}
