//! An answer as it came off the wire, and what is made of it.
//!
//! Both decoders give a [`Draft`]; [`assemble`] makes the reply: reasoning out
//! of the text, calls out of the text, ids, arguments, the reason to stop.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::arguments::{self, CUT_OFF, Parsed};
use super::calls::RawCall;
use super::errors::Failure;
use super::{
    Block, ErrorClass, Message, Role, Stop, ToolSpec, ToolUse, TurnReply, Usage, Wire, textcalls,
    think,
};

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Thinking {
        text: String,
        signature: Option<String>,
        extra: Map<String, Value>,
    },
    Redacted(String),
    Call(RawCall),
}

/// A whole answer, undigested.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Draft {
    /// Pieces in order.
    pub pieces: Vec<Piece>,
    /// The wire's word for why it stopped.
    pub stop: Option<String>,
    /// Tokens.
    pub usage: Option<Usage>,
    /// Model that answered.
    pub model: Option<String>,
}

/// What the making of the reply needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub wire: Wire,
    /// Tools on offer.
    pub tools: &'a [ToolSpec],
    /// The conversation so far, for the ids in use.
    pub messages: &'a [Message],
}

/// A reply, and what it shows of the server's ways with tools.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Made {
    pub reply: TurnReply,
    /// Calls came as the wire's own.
    pub native: bool,
    /// The text was a bare JSON call.
    pub bare: bool,
    /// The text begins like a call, and the output bound cut it off.
    pub begun: bool,
}

pub(crate) const REPAIRED: &str = "arguments_repaired";
pub(crate) const RECOVERED: &str = "text_tool_call_recovered";

/// The stop reason in our words. `Err` holds a word that means failure.
pub(crate) fn stop_of(word: Option<&str>) -> Result<Stop, &str> {
    Ok(match word.map(str::trim) {
        Some("stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "completed") => {
            Stop::EndTurn
        }
        Some("tool_calls" | "tool_use" | "function_call" | "tool_call") => Stop::ToolUse,
        Some(
            "length"
            | "max_tokens"
            | "model_length"
            | "max_output_tokens"
            | "model_context_window_exceeded",
        ) => Stop::MaxTokens,
        Some("content_filter" | "refusal" | "sensitive" | "safety" | "SAFETY" | "RECITATION") => {
            Stop::ContentFilter
        }
        Some(
            word @ ("error"
            | "insufficient_system_resource"
            | "network_error"
            | "abort"
            | "cancel"
            | "cancelled"),
        ) => {
            return Err(word);
        }
        Some(other) if !other.is_empty() => Stop::Other(other.to_owned()),
        _ => Stop::Other("unknown".to_owned()),
    })
}

/// Makes the reply of a draft.
pub(crate) fn assemble(draft: Draft, ground: Ground<'_>) -> Result<Made, Failure> {
    let mut stop = stop_of(draft.stop.as_deref()).map_err(|word| {
        Failure::new(
            ErrorClass::UpstreamError,
            format!("the provider ended its answer with `{word}`"),
        )
    })?;
    let cut = stop == Stop::MaxTokens;
    let mut reasoning = Vec::new();
    let mut spoken = Vec::new();
    let native = draft.pieces.iter().any(|p| matches!(p, Piece::Call(_)));
    let tagged = !draft
        .pieces
        .iter()
        .any(|p| matches!(p, Piece::Thinking { text, .. } if !text.trim().is_empty()));
    let mut ids = Ids::new(ground);
    let mut made = Made {
        reply: TurnReply {
            message: Message {
                role: Role::Assistant,
                blocks: Vec::new(),
                answered_by: draft.model.clone(),
            },
            stop: Stop::EndTurn,
            usage: draft.usage,
            model: draft.model,
            flags: Vec::new(),
        },
        native,
        bare: false,
        begun: false,
    };
    for piece in draft.pieces {
        match piece {
            Piece::Thinking {
                text,
                signature,
                extra,
            } => reasoning.push(Block::Thinking {
                text,
                signature,
                extra,
            }),
            Piece::Redacted(data) => reasoning.push(Block::RedactedThinking { data }),
            Piece::Call(call) => {
                let parsed = arguments::parse(&call.arguments);
                spoken.push(tool_use(
                    call.id.as_deref(),
                    &call.name,
                    parsed,
                    &mut ids,
                    &mut made.reply.flags,
                ));
            }
            Piece::Text(text) => {
                let (thought, visible) = if tagged {
                    think::split(&text)
                } else {
                    (String::new(), text)
                };
                if !thought.is_empty() {
                    reasoning.push(Block::Thinking {
                        text: thought,
                        signature: None,
                        extra: Map::new(),
                    });
                }
                let mut left = visible;
                if !ground.tools.is_empty() {
                    let found = textcalls::recover(&left, ground.tools);
                    if found.calls.is_empty() {
                        made.begun |= cut && textcalls::looks_begun(&left, ground.tools);
                        // Stray end tags are gone from it.
                        left = found.text;
                    } else if native && found.bare {
                        // JSON beside a structured call is its echo.
                        left = String::new();
                    } else {
                        left = found.text;
                        if !native {
                            made.bare |= found.bare;
                            flag(&mut made.reply.flags, RECOVERED);
                            if !left.trim().is_empty() {
                                spoken.push(Block::Text {
                                    text: std::mem::take(&mut left),
                                });
                            }
                            for call in found.calls {
                                spoken.push(tool_use(
                                    None,
                                    &call.name,
                                    call.parsed,
                                    &mut ids,
                                    &mut made.reply.flags,
                                ));
                            }
                        }
                    }
                }
                if !left.trim().is_empty() {
                    spoken.push(Block::Text { text: left });
                }
            }
        }
    }
    // The bound cut the last call off, even where its JSON happens to close.
    if cut && let Some(Block::ToolUse(last)) = spoken.last_mut() {
        last.input = Map::new();
        last.malformed = Some(CUT_OFF.to_owned());
    }
    let called = spoken.iter().any(|b| matches!(b, Block::ToolUse(_)));
    if called && !cut {
        stop = Stop::ToolUse;
    } else if stop == Stop::ToolUse {
        if spoken.is_empty() && reasoning.is_empty() {
            return Err(Failure::new(
                ErrorClass::EmptyResponse,
                "the provider announced tool calls and sent none",
            ));
        }
        stop = Stop::EndTurn;
    }
    reasoning.extend(spoken);
    made.reply.message.blocks = reasoning;
    made.reply.stop = stop;
    Ok(made)
}

fn tool_use(
    id: Option<&str>,
    name: &str,
    parsed: Parsed,
    ids: &mut Ids<'_>,
    flags: &mut Vec<&'static str>,
) -> Block {
    if parsed.repaired && parsed.malformed.is_none() {
        flag(flags, REPAIRED);
    }
    // Tokens of the model's own format may hang on the name.
    let name = name.split("<|").next().unwrap_or_default().trim();
    let malformed = match name.is_empty() {
        true => Some("the call names no tool".to_owned()),
        false => parsed.malformed,
    };
    Block::ToolUse(ToolUse {
        id: ids.take(id),
        name: name.to_owned(),
        input: if malformed.is_some() {
            Map::new()
        } else {
            parsed.input
        },
        malformed,
    })
}

fn flag(flags: &mut Vec<&'static str>, name: &'static str) {
    if !flags.contains(&name) {
        flags.push(name);
    }
}

/// Ids that are new in the conversation.
struct Ids<'a> {
    wire: Wire,
    used: HashSet<&'a str>,
    given: HashSet<String>,
}

impl<'a> Ids<'a> {
    fn new(ground: Ground<'a>) -> Self {
        let used = ground
            .messages
            .iter()
            .flat_map(Message::tool_uses)
            .map(|call| call.id.as_str());
        Ids {
            wire: ground.wire,
            used: used.collect(),
            given: HashSet::new(),
        }
    }

    /// The provider's id where it can be used again, else one of ours.
    fn take(&mut self, id: Option<&str>) -> String {
        let plain = |id: &&str| {
            self.wire != Wire::Anthropic
                || id
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        let id = id
            .filter(plain)
            .filter(|id| !self.used.contains(*id) && !self.given.contains(*id));
        let id = match id {
            Some(id) => id.to_owned(),
            None => new_id(),
        };
        self.given.insert(id.clone());
        id
    }
}

/// An id of our own, unlike any that a provider makes.
pub(crate) fn new_id() -> String {
    format!("call_{}", ulid::Ulid::generate())
}

#[cfg(test)]
mod tests;
