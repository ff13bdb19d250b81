//! A conversation as an Anthropic Messages request.

use serde_json::{Map, Value, json};

use super::history::{Answer, Said, Turn, turns, wire_name};
use super::openai_encode::Style;
use super::{Block, TurnRequest};

/// The request body. The caller adds what the endpoint wants on top.
pub(crate) fn body(request: &TurnRequest<'_>, bound: u32, style: &Style) -> Map<String, Value> {
    let turns = turns(request.messages);
    // DeepSeek wants the block on every turn with calls once it was on one.
    let wants_empty = style.resend.deepseek(&style.model)
        && turns
            .iter()
            .any(|turn| matches!(turn, Turn::Assistant(said) if said.thinking.iter().any(own)));
    let messages: Vec<Value> = turns
        .iter()
        .map(|turn| match turn {
            Turn::User { answers, texts } => user(answers, texts, style.images),
            Turn::Assistant(said) => assistant(said, wants_empty),
        })
        .collect();
    let mut body = Map::new();
    body.insert("model".into(), json!(style.model));
    body.insert("max_tokens".into(), json!(bound));
    if !request.system.trim().is_empty() {
        body.insert("system".into(), json!(request.system));
    }
    body.insert("messages".into(), Value::Array(messages));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema})
        });
        body.insert("tools".into(), tools.collect());
    }
    body.insert("stream".into(), json!(style.stream));
    body
}

/// All answers in one message, before every other block.
fn user(answers: &[Answer<'_>], texts: &[&str], images: bool) -> Value {
    let mut blocks = Vec::with_capacity(answers.len() + texts.len());
    for answer in answers {
        let content = match answer.image {
            Some(image) if images => json!([
                {"type": "text", "text": answer.content},
                {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}},
            ]),
            _ => json!(answer.content),
        };
        let mut block =
            json!({"type": "tool_result", "tool_use_id": answer.id, "content": content});
        if answer.is_error {
            block["is_error"] = json!(true);
        }
        blocks.push(block);
    }
    blocks.extend(
        texts
            .iter()
            .map(|text| json!({"type": "text", "text": text})),
    );
    json!({"role": "user", "content": blocks})
}

/// Reasoning first and unchanged: its signature covers every byte.
fn assistant(said: &Said<'_>, wants_empty: bool) -> Value {
    let mut blocks = Vec::new();
    for block in &said.thinking {
        match block {
            Block::Thinking {
                text, signature, ..
            } if own(block) => {
                let mut out = json!({"type": "thinking", "thinking": text});
                if let Some(signature) = signature {
                    out["signature"] = json!(signature);
                }
                blocks.push(out);
            }
            Block::RedactedThinking { data } => {
                blocks.push(json!({"type": "redacted_thinking", "data": data}))
            }
            _ => {}
        }
    }
    if wants_empty && blocks.is_empty() && !said.calls.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": ""}));
    }
    blocks.extend(
        said.texts
            .iter()
            .map(|text| json!({"type": "text", "text": text})),
    );
    blocks.extend(said.calls.iter().map(|call| {
        json!({"type": "tool_use", "id": call.id, "name": wire_name(&call.name), "input": call.input})
    }));
    json!({"role": "assistant", "content": blocks})
}

/// Key in `extra` of a block that this wire sent as a block.
pub(crate) const OWN: &str = "thinking";

/// Whether a block is this wire's own: reasoning that stood inside a text was
/// never a block here, and a server that checks blocks would refuse it.
fn own(block: &&Block) -> bool {
    match block {
        Block::Thinking {
            signature, extra, ..
        } => signature.is_some() || extra.contains_key(OWN),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
