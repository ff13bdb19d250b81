//! A request body of either format in one shape, for the checks.

use serde_json::{Map, Value};

/// A call as it stands in a request.
#[derive(Clone, Debug)]
pub struct Call {
    pub id: Value,
    pub name: Value,
    pub args: Value,
}

/// A tool result as it stands in a request.
#[derive(Clone, Debug)]
pub struct Result {
    pub id: Value,
    pub text: String,
    /// `None` on the OpenAI wire, which has no such flag.
    pub is_error: Option<bool>,
}

/// A message in one shape.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub role: String,
    pub text: String,
    pub calls: Vec<Call>,
    pub results: Vec<Result>,
    pub reasoning: Map<String, Value>,
    pub thinking: Vec<Value>,
    pub content: Value,
}

/// The text of a content value.
pub fn flat(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(flat).collect(),
        Value::Object(map) => match map.get("type").and_then(Value::as_str) {
            None | Some("text" | "tool_result") => match map.get("text").and_then(Value::as_str) {
                Some(text) if !text.is_empty() => text.to_owned(),
                _ => map.get("content").map(flat).unwrap_or_default(),
            },
            Some(_) => String::new(),
        },
        other => other.to_string(),
    }
}

/// The messages of a body.
pub fn messages(format: &str, body: &Value) -> Vec<Message> {
    let empty = Vec::new();
    let list = body
        .get("messages")
        .and_then(Value::as_array)
        .unwrap_or(&empty);
    list.iter()
        .map(|raw| {
            if format == "openai" {
                openai(raw)
            } else {
                anthropic(raw)
            }
        })
        .collect()
}

fn get(value: &Value, key: &str) -> Value {
    value.get(key).cloned().unwrap_or(Value::Null)
}

fn openai(raw: &Value) -> Message {
    let mut out = Message {
        role: raw
            .get("role")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        text: flat(&get(raw, "content")),
        content: get(raw, "content"),
        ..Message::default()
    };
    for call in raw
        .get("tool_calls")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let function = get(call, "function");
        out.calls.push(Call {
            id: get(call, "id"),
            name: get(&function, "name"),
            args: get(&function, "arguments"),
        });
    }
    if out.role == "tool" {
        out.results.push(Result {
            id: get(raw, "tool_call_id"),
            text: out.text.clone(),
            is_error: None,
        });
    }
    for field in ["reasoning_content", "reasoning"] {
        if let Some(text @ Value::String(_)) = raw.get(field) {
            out.reasoning.insert(field.to_owned(), text.clone());
        }
    }
    if let Some(details) = raw.get("reasoning_details").and_then(Value::as_array) {
        let joined: String = details
            .iter()
            .filter_map(|d| d.get("text").and_then(Value::as_str))
            .collect();
        out.reasoning
            .insert("reasoning_details".to_owned(), Value::String(joined));
    }
    out
}

fn anthropic(raw: &Value) -> Message {
    let mut out = Message {
        role: raw
            .get("role")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        content: get(raw, "content"),
        ..Message::default()
    };
    let blocks = match &out.content {
        Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    };
    for block in &blocks {
        match block
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "text" => out.text.push_str(
                block
                    .get("text")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            ),
            "tool_use" => out.calls.push(Call {
                id: get(block, "id"),
                name: get(block, "name"),
                args: get(block, "input"),
            }),
            "tool_result" => out.results.push(Result {
                id: get(block, "tool_use_id"),
                text: flat(&get(block, "content")),
                is_error: Some(
                    block
                        .get("is_error")
                        .and_then(Value::as_bool)
                        .unwrap_or(false),
                ),
            }),
            "thinking" | "redacted_thinking" => out.thinking.push(block.clone()),
            _ => {}
        }
    }
    out
}

/// Types of the blocks of a content array.
pub fn kinds(content: &Value) -> Vec<String> {
    let kind = |block: &Value| {
        block
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match content {
        Value::Array(blocks) => blocks.iter().map(kind).collect(),
        _ => vec!["text".to_owned()],
    }
}
