//! Talking to a model: content blocks, the two wires, retry.
//!
//! `run` calls [`Client::turn`] once a turn and gets whole blocks back, or one
//! [`ProviderError`] with a stable class. Nothing of a broken-off try is kept.

mod adapt;
mod answer;
mod anthropic_decode;
mod anthropic_encode;
mod arguments;
mod calls;
mod client;
mod content;
mod discover;
mod draft;
mod endpoint;
mod errors;
mod exchange;
mod history;
mod liveness;
mod mask;
mod mode;
mod openai_decode;
mod openai_encode;
mod report;
mod resend;
mod retry;
mod sse;
mod structured;
mod textcalls;
mod think;
mod wirejson;

pub use client::Client;
pub use content::{Block, Image, Message, Role, ToolResult, ToolUse};
pub use discover::{Candidate, LocalServer, discover, list_models, usual_candidates};
pub use endpoint::is_loopback;
pub use liveness::{Liveness, liveness};
pub use resend::Resend;

// They stand in `config`, one floor below, because configuration decides them.
pub use crate::config::{Endpoint, ToolMode, Wire};

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Canonical name.
    pub name: &'static str,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments, an object; key order is part of the text.
    pub schema: Value,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    /// System prompt.
    pub system: &'a str,
    /// The conversation; starts with a user message.
    pub messages: &'a [Message],
    /// Offered tools.
    pub tools: &'a [ToolSpec],
    /// Output bound in tokens.
    pub max_output_tokens: u32,
    /// `Native` or `Structured`; `Auto` is resolved by the client.
    pub tool_mode: ToolMode,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It was done.
    EndTurn,
    /// It waits for tools.
    ToolUse,
    /// The output bound was reached.
    MaxTokens,
    /// The provider filtered it.
    ContentFilter,
    /// The provider said something else, or nothing.
    Other(String),
}

/// Tokens as the provider reported them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, cached ones included.
    pub input_tokens: u64,
    /// Answer tokens.
    pub output_tokens: u64,
    /// Prompt tokens read from a cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens written to a cache.
    pub cache_creation_tokens: u64,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnReply {
    /// The assistant message, fit to be sent back as it is.
    pub message: Message,
    /// Why it stopped.
    pub stop: Stop,
    /// `None` when the provider reported none.
    pub usage: Option<Usage>,
    /// The model that answered.
    pub model: Option<String>,
    /// Notes for the run's flags: `arguments_repaired`, `text_tool_call_recovered`.
    pub flags: Vec<&'static str>,
}

/// What happens while a turn is under way.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderEvent {
    /// A request was sent; `attempt` is 1-based.
    Sent {
        /// Which try.
        attempt: u32,
    },
    /// Visible text arrived.
    Text(String),
    /// Reasoning arrived.
    Thinking(String),
    /// A try failed and another comes after `wait`.
    Retrying {
        /// The class of the failed try.
        class: ErrorClass,
        /// Time until the next try.
        wait: Duration,
    },
    /// The tool mode was switched from native to structured.
    ModeSwitched,
}

/// The stable class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// Key missing, wrong or without rights.
    Auth,
    /// Money or plan used up; never retried.
    Quota,
    /// Too many requests.
    RateLimit,
    /// The provider is overloaded.
    Overloaded,
    /// The conversation does not fit the model's window.
    ContextOverflow,
    /// The provider refused the request itself.
    BadRequest,
    /// The provider failed.
    UpstreamError,
    /// The connection failed or broke.
    Transport,
    /// The answer was not what the wire promises.
    Protocol,
    /// The same calls went round and round.
    LoopDetected,
    /// The turn limit was reached with work left.
    TurnLimit,
    /// The output bound cut the answer.
    OutputTruncated,
    /// The model answered nothing.
    EmptyResponse,
    /// Cancelled by the caller.
    Cancelled,
    /// A local cause: workspace, jail, journal or configuration.
    Local,
    /// A budget of the run (time, tokens, history) was used up.
    Budget,
}

impl ErrorClass {
    /// The stable word for it, as in JSON.
    pub fn code(self) -> &'static str {
        match self {
            ErrorClass::Auth => "auth",
            ErrorClass::Quota => "quota",
            ErrorClass::RateLimit => "rate_limit",
            ErrorClass::Overloaded => "overloaded",
            ErrorClass::ContextOverflow => "context_overflow",
            ErrorClass::BadRequest => "bad_request",
            ErrorClass::UpstreamError => "upstream_error",
            ErrorClass::Transport => "transport",
            ErrorClass::Protocol => "protocol",
            ErrorClass::LoopDetected => "loop_detected",
            ErrorClass::TurnLimit => "turn_limit",
            ErrorClass::OutputTruncated => "output_truncated",
            ErrorClass::EmptyResponse => "empty_response",
            ErrorClass::Cancelled => "cancelled",
            ErrorClass::Local => "local",
            ErrorClass::Budget => "budget",
        }
    }
}

/// A failed turn, after all tries.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct ProviderError {
    /// Stable class.
    pub class: ErrorClass,
    /// For a person: category, status, the provider's message cut short and
    /// with every secret masked; never a URL's user information or a key.
    pub text: String,
    /// HTTP status of the last try, if there was one.
    pub status: Option<u16>,
    /// Tries made.
    pub attempts: u32,
}
