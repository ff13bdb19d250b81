//! Content blocks: the only model of a conversation.
//!
//! Each wire encodes them on the way out and decodes them on the way in, and
//! keeps what it does not understand for the way back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who said a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The task, tool results and steering.
    User,
    /// The model.
    Assistant,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Visible text.
    Text {
        /// The text; never empty in a message that is sent.
        text: String,
    },
    /// Reasoning. `signature` and `extra` go back exactly as they came.
    Thinking {
        /// The reasoning text, byte for byte.
        text: String,
        /// Anthropic's signature over it.
        signature: Option<String>,
        /// OpenAI wire: name of the field it came in, such as
        /// `reasoning_content`, with the raw value where it was not a string.
        extra: Map<String, Value>,
    },
    /// Anthropic's encrypted reasoning, returned unread.
    RedactedThinking {
        /// The opaque bytes as text.
        data: String,
    },
    /// The model asks for a tool.
    ToolUse(ToolUse),
    /// What a tool answered.
    ToolResult(ToolResult),
}

/// A tool call as the model asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Unique within the conversation; the provider's where usable and new.
    pub id: String,
    /// The name as sent; canonical names are `tools`' matter.
    pub name: String,
    /// The arguments; an empty object where they did not parse.
    pub input: Map<String, Value>,
    /// Set when the call must not run: why its arguments are unusable
    /// (cut off, not JSON, not an object).
    pub malformed: Option<String>,
}

/// A tool's answer to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub tool_use_id: String,
    /// The text that the model sees; never empty.
    pub content: String,
    /// Whether the tool failed or refused.
    pub is_error: bool,
    /// An image beside the text, for models with vision.
    pub image: Option<Image>,
}

/// An image in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Such as `image/png`.
    pub media_type: String,
    /// Base64 without line breaks.
    pub data: String,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// Its blocks in order.
    pub blocks: Vec<Block>,
    /// The model that answered, for an assistant message, where known.
    pub answered_by: Option<String>,
}

impl Message {
    /// A user message of one text block.
    pub fn user(text: impl Into<String>) -> Self {
        Message {
            role: Role::User,
            blocks: vec![Block::Text { text: text.into() }],
            answered_by: None,
        }
    }

    /// The tool calls in it, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// Its visible text, blocks joined.
    pub fn text(&self) -> String {
        let mut joined = String::new();
        for block in &self.blocks {
            if let Block::Text { text } = block {
                joined.push_str(text);
            }
        }
        joined
    }
}
