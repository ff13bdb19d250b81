//! Where a model is and how to speak to it, as plain data.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The wire format of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// OpenAI Chat Completions: `BASE/chat/completions`.
    Openai,
    /// Anthropic Messages: `BASE/v1/messages` (or `BASE/messages` where BASE ends in `/v1`).
    Anthropic,
}

impl Wire {
    /// The name used in settings.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Openai => "openai",
            Wire::Anthropic => "anthropic",
        }
    }
}

/// How tools are offered to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// `native`, then `structured` when the server shows no usable native calls.
    #[default]
    Auto,
    /// The wire's own tool calls.
    Native,
    /// A `json_schema` response format that holds one action a turn.
    Structured,
}

impl ToolMode {
    /// The name used in settings.
    pub fn name(self) -> &'static str {
        match self {
            ToolMode::Auto => "auto",
            ToolMode::Native => "native",
            ToolMode::Structured => "structured",
        }
    }
}

/// Where a model is, and as whom to speak to it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Base URL as the person gave it.
    pub base_url: url::Url,
    /// Wire format.
    pub wire: Wire,
    /// Model name as the provider knows it.
    pub model: String,
    /// The key; never printed.
    pub key: Option<SecretString>,
    /// `reasoning_effort` and `thinking` keys to add to the request body.
    pub extra_body: serde_json::Map<String, Value>,
}
