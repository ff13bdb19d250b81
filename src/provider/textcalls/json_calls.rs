//! Calls written as JSON: between tags (Hermes, LM Studio, MiniMax), in the
//! channels of Harmony, or as the whole message.

use serde_json::{Map, Value};

use super::super::ToolSpec;
use super::super::arguments::Raw;
use super::{Found, TextCall, UNCLOSED, spec};

/// JSON up to a closing tag. `None` when what stands there is no call at all.
pub(super) fn tagged(inner: &str, close: &str) -> Found {
    let (body, length) = match inner.find(close) {
        Some(at) => (&inner[..at], at + close.len()),
        None => (inner, inner.len()),
    };
    let trimmed = body.trim();
    if !trimmed.starts_with(['{', '[']) {
        return None;
    }
    let calls = several(trimmed);
    match calls {
        // The server may have eaten the closing tag as a stop word: whole JSON is whole.
        Some(calls) => Some((calls, length)),
        None if length == inner.len() && !inner.ends_with(close) => {
            Some((vec![TextCall::broken(&name_in(trimmed), UNCLOSED)], length))
        }
        None => {
            // The tag may stand inside a string of the arguments.
            let mut values =
                serde_json::Deserializer::from_str(inner.trim_start()).into_iter::<Value>();
            if let Some(Ok(value)) = values.next()
                && let Some(call) = one(&value)
            {
                let used = inner.len() - inner.trim_start().len() + values.byte_offset();
                let tail = inner[used..].trim_start();
                let closed = tail.strip_prefix(close).map_or(tail, |t| t);
                return Some((vec![call], inner.len() - closed.len()));
            }
            // Repairs of the arguments work on the object as a whole.
            Some((vec![repaired(trimmed)], length))
        }
    }
}

/// Every JSON value of the text as a call; `None` unless all are.
fn several(text: &str) -> Option<Vec<TextCall>> {
    let mut calls = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match value.ok()? {
            Value::Array(items) => {
                for item in &items {
                    calls.push(one(item)?);
                }
            }
            value => calls.push(one(&value)?),
        }
    }
    (!calls.is_empty()).then_some(calls)
}

/// `{"name": .., "arguments": ..}` and its relatives.
fn one(value: &Value) -> Option<TextCall> {
    let map = value.as_object()?;
    if let Some(inner @ Value::Object(_)) = map.get("function") {
        return one(inner);
    }
    let name = ["name", "tool", "function", "tool_name"]
        .iter()
        .find_map(|k| map.get(*k)?.as_str())?;
    let raw = match ["arguments", "parameters", "args", "input"]
        .iter()
        .find_map(|k| map.get(*k))
    {
        Some(Value::Object(arguments)) => Raw::Object(arguments.clone()),
        Some(Value::String(text)) => Raw::Text(text.clone()),
        Some(Value::Null) | None => Raw::Object(Map::new()),
        Some(_) => {
            return Some(TextCall::broken(
                name,
                "the arguments are not a JSON object",
            ));
        }
    };
    Some(TextCall::new(name, raw))
}

/// A call whose JSON does not parse, perhaps only for its escapes.
fn repaired(text: &str) -> TextCall {
    let parsed = super::arguments::parse(&Raw::Text(text.to_owned()));
    match parsed.malformed {
        None => match one(&Value::Object(parsed.input)) {
            Some(mut call) => {
                call.parsed.repaired = true;
                call
            }
            None => TextCall::broken("", "the call names no tool"),
        },
        Some(why) => TextCall::broken(&name_in(text), &why),
    }
}

/// The name in JSON that does not parse.
fn name_in(text: &str) -> String {
    let after = text.split_once("\"name\"").map_or("", |(_, after)| after);
    let mut quotes = after.splitn(3, '"');
    match (quotes.next().map(str::trim), quotes.next()) {
        (Some(":"), Some(name)) => name.to_owned(),
        _ => String::new(),
    }
}

/// The whole message as one or more calls of tools on offer, bare or in one fence.
pub(super) fn whole_message(text: &str, tools: &[ToolSpec]) -> Option<Vec<TextCall>> {
    let mut body = text.trim();
    if let Some(inner) = body.strip_prefix("```") {
        let (tag, inner) = inner.split_once('\n')?;
        if !matches!(tag.trim(), "" | "json" | "xml" | "tool_call" | "tool_code") {
            return None;
        }
        body = inner.strip_suffix("```").unwrap_or(inner).trim();
    }
    if !body.starts_with(['{', '[']) {
        return None;
    }
    let calls = several(body)?;
    calls
        .iter()
        .all(|call| spec(tools, &call.name).is_some())
        .then_some(calls)
}

/// Whether a text that does not parse looks like the beginning of a call.
pub(crate) fn looks_begun(text: &str, tools: &[ToolSpec]) -> bool {
    let text = text.trim_start();
    let body = text.strip_prefix("```json").unwrap_or(text).trim_start();
    body.starts_with('{') && spec(tools, &name_in(body)).is_some()
}

/// `<|channel|>commentary to=functions.Read<|constrain|>json<|message|>{..}<|call|>`,
/// only where the recipient is a tool on offer.
pub(super) fn harmony(text: &str, tools: &[ToolSpec]) -> Found {
    let (header, body) = text.split_once("<|message|>")?;
    let recipient = header.split_once("to=")?.1;
    let recipient = recipient
        .split(|c: char| c == '<' || c.is_whitespace())
        .next()?;
    let name = recipient.strip_prefix("functions.").unwrap_or(recipient);
    spec(tools, name)?;
    let (arguments, length) = match body.find("<|call|>") {
        Some(at) => (&body[..at], at + "<|call|>".len()),
        None => match body.find("<|") {
            Some(at) => (&body[..at], at),
            None => (body, body.len()),
        },
    };
    let call = TextCall::new(name, Raw::Text(arguments.to_owned()));
    Some((vec![call], text.len() - body.len() + length))
}
