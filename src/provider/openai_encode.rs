//! A conversation as an OpenAI Chat Completions request.

use serde_json::{Map, Value, json};

use super::history::{Answer, Said, Turn, turns, wire_name};
use super::resend::Resend;
use super::{Block, Image, ToolSpec, TurnRequest};

/// What a server was found not to take, and what the person set.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    /// Model name.
    pub model: String,
    /// Stream the answer.
    pub stream: bool,
    /// Name of the output bound.
    pub bound: &'static str,
    /// Ask for usage in the stream.
    pub stream_usage: bool,
    /// Send images.
    pub images: bool,
    /// Whose reasoning goes back.
    pub resend: Resend,
}

/// The request body. The caller adds what the endpoint wants on top.
pub(crate) fn body(request: &TurnRequest<'_>, bound: u32, style: &Style) -> Map<String, Value> {
    let turns = turns(request.messages);
    let mut messages = Vec::with_capacity(turns.len() + 1);
    if !request.system.trim().is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    // DeepSeek wants the field on every turn with calls once it was on one.
    let wants_empty = style.resend.deepseek(&style.model)
        && turns.iter().any(
            |turn| matches!(turn, Turn::Assistant(said) if !reasoning(said, style).is_empty()),
        );
    for turn in &turns {
        match turn {
            Turn::User { answers, texts } => user(&mut messages, answers, texts, style.images),
            Turn::Assistant(said) => messages.push(assistant(said, style, wants_empty)),
        }
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(style.model));
    body.insert("messages".into(), Value::Array(messages));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    body.insert(style.bound.into(), json!(bound));
    body.insert("stream".into(), json!(style.stream));
    if style.stream && style.stream_usage {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    body
}

fn tool(tool: &ToolSpec) -> Value {
    json!({"type": "function", "function": {
        "name": tool.name, "description": tool.description, "parameters": tool.schema,
    }})
}

/// Tool messages first: no other role may stand between calls and answers.
fn user(messages: &mut Vec<Value>, answers: &[Answer<'_>], texts: &[&str], images: bool) {
    let mut parts = Vec::new();
    for answer in answers {
        messages.push(
            json!({"role": "tool", "tool_call_id": answer.id, "content": answer_text(answer)}),
        );
        if let (true, Some(image)) = (images, answer.image) {
            parts.push(json!({"type": "text", "text": format!("Image of the {} call {}:", answer.name, answer.id)}));
            parts.push(image_part(image));
        }
    }
    if !parts.is_empty() {
        parts.extend(
            texts
                .iter()
                .map(|text| json!({"type": "text", "text": text})),
        );
        messages.push(json!({"role": "user", "content": parts}));
    } else if !texts.is_empty() {
        messages.push(json!({"role": "user", "content": texts.join("\n\n")}));
    }
}

fn image_part(image: &Image) -> Value {
    json!({"type": "image_url", "image_url": {"url": format!("data:{};base64,{}", image.media_type, image.data)}})
}

/// This wire has no flag for a failed call, so its text has to say so.
pub(crate) fn answer_text(answer: &Answer<'_>) -> String {
    let first = answer
        .content
        .lines()
        .next()
        .unwrap_or_default()
        .to_lowercase();
    if answer.is_error
        && !["error", "exit", "fail"]
            .iter()
            .any(|word| first.contains(word))
    {
        format!("ERROR: {}", answer.content)
    } else {
        answer.content.clone().into_owned()
    }
}

fn assistant(said: &Said<'_>, style: &Style, wants_empty: bool) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    let content = match said.texts.is_empty() {
        true => Value::Null,
        false => json!(said.texts.join("\n")),
    };
    message.insert("content".into(), content);
    let fields = reasoning(said, style);
    if fields.is_empty() && wants_empty && !said.calls.is_empty() {
        message.insert("reasoning_content".into(), json!(""));
    }
    for (name, value) in fields {
        message.insert(name.into(), value);
    }
    if !said.calls.is_empty() {
        let calls = said.calls.iter().map(|call| {
            json!({"id": call.id, "type": "function", "function": {
                "name": wire_name(&call.name),
                "arguments": Value::Object(call.input.clone()).to_string(),
            }})
        });
        message.insert("tool_calls".into(), calls.collect());
    }
    Value::Object(message)
}

/// The reasoning fields that go back with a turn, under the names they came in.
fn reasoning<'a>(said: &Said<'a>, style: &Style) -> Vec<(&'a str, Value)> {
    if !style.resend.allows(&style.model, said.answered_by) {
        return Vec::new();
    }
    let mut fields = Vec::new();
    for block in &said.thinking {
        if let Block::Thinking { text, extra, .. } = block {
            for (name, value) in extra {
                // Null stands for the block's own text.
                let value = if value.is_null() {
                    json!(text)
                } else {
                    value.clone()
                };
                fields.push((name.as_str(), value));
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests;
