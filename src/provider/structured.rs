//! One action a turn, held by a JSON schema instead of native tool calls.
//!
//! For servers and small models whose native calls are of no use: the server's
//! grammar makes every answer one action with its arguments, or `Finish`.
//! Nothing of the wire's tool machinery is used; the conversation is plain text.

use serde_json::{Map, Value, json};

use super::arguments::Raw;
use super::calls::RawCall;
use super::draft::{self, Draft, Ground, Made, Piece, stop_of};
use super::errors::Failure;
use super::history::{Said, Turn, turns};
use super::openai_encode::{Style, answer_text};
use super::{Stop, ToolSpec, TurnRequest, think};

/// The action that ends the work.
pub(crate) const FINISH: &str = "Finish";

/// The schema of one action: the schema of each tool with its name as a
/// constant, and `Finish`.
pub(crate) fn schema(tools: &[ToolSpec]) -> Value {
    let mut actions: Vec<Value> = tools
        .iter()
        .map(|tool| action(tool.name, &tool.schema))
        .collect();
    actions.push(action(
        FINISH,
        &json!({"properties": {"summary": {"type": "string"}}, "required": ["summary"]}),
    ));
    json!({"oneOf": actions})
}

fn action(name: &str, schema: &Value) -> Value {
    // First, so that a grammar fixes the tool before its arguments.
    let mut properties = Map::new();
    properties.insert("tool".into(), json!({"const": name}));
    if let Some(own) = schema.get("properties").and_then(Value::as_object) {
        properties.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    let mut required = vec![json!("tool")];
    if let Some(own) = schema.get("required").and_then(Value::as_array) {
        required.extend(own.iter().cloned());
    }
    json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    })
}

/// What the model is told. Short, as small models read slowly, and by example,
/// as they copy: the examples are of work, and `Finish` comes first.
fn guide(tools: &[ToolSpec]) -> String {
    let mut text = String::from(
        "Answer each time with exactly one action, as one JSON object and nothing else. The result of the action \
         comes back as the next message. Take one step at a time. Once the work is done, and not before, use \
         Finish with a summary of it.\n\
         Actions:\n\
         - Finish ends the work: {\"tool\":\"Finish\",\"summary\":\"...\"}\n",
    );
    for tool in tools {
        text.push_str(&format!("- {}\n", line(tool)));
    }
    text
}

/// One tool in a line: what it does, and an example with what it needs. The rest
/// is in the schema, and in the results that say how to go on: a half-billion
/// model passed 6 of 20 small tasks with these lines, 3 of 15 with the optional
/// parameters named in them, and 2 of 15 with the whole descriptions.
fn line(tool: &ToolSpec) -> String {
    let empty = Vec::new();
    let required = tool
        .schema
        .get("required")
        .and_then(Value::as_array)
        .unwrap_or(&empty);
    let mut example = Map::new();
    example.insert("tool".into(), json!(tool.name));
    for name in required.iter().filter_map(Value::as_str) {
        let kind = tool
            .schema
            .pointer(&format!("/properties/{name}/type"))
            .and_then(Value::as_str);
        example.insert(name.to_owned(), sample(name, kind));
    }
    let what = tool.description.trim();
    let end = what.find(". ").map_or(what.len(), |at| at + 1);
    format!("{}: {} {}", tool.name, &what[..end], Value::Object(example))
}

/// A value for the example of a parameter.
fn sample(name: &str, kind: Option<&str>) -> Value {
    match kind {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        _ => json!(match name {
            "file_path" => "notes.txt",
            "notebook_path" => "notes.ipynb",
            "command" => "ls",
            "old_string" => "colour = red",
            "new_string" => "colour = blue",
            "pattern" => "colour",
            _ => "text",
        }),
    }
}

/// The request body. The caller adds what the endpoint wants on top.
pub(crate) fn body(request: &TurnRequest<'_>, bound: u32, style: &Style) -> Map<String, Value> {
    let system = match request.system.trim() {
        "" => guide(request.tools),
        text => format!("{text}\n\n{}", guide(request.tools)),
    };
    let mut messages = vec![json!({"role": "system", "content": system})];
    for turn in turns(request.messages) {
        messages.push(match &turn {
            Turn::User { answers, texts } => {
                let results = answers
                    .iter()
                    .map(|a| format!("Result of {}:\n{}", a.name, answer_text(a)));
                let parts: Vec<String> = results
                    .chain(texts.iter().map(|t| (*t).to_owned()))
                    .collect();
                json!({"role": "user", "content": parts.join("\n\n")})
            }
            Turn::Assistant(said) => json!({"role": "assistant", "content": actions(said)}),
        });
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(style.model));
    body.insert("messages".into(), Value::Array(messages));
    body.insert(
        "response_format".into(),
        json!({"type": "json_schema", "json_schema": {
            "name": "action", "schema": schema(request.tools), "strict": true,
        }}),
    );
    body.insert(style.bound.into(), json!(bound));
    body.insert("stream".into(), json!(style.stream));
    if style.stream && style.stream_usage {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    body
}

/// A turn of the model in this mode's words, also one from before the switch.
fn actions(said: &Said<'_>) -> String {
    if said.calls.is_empty() {
        return json!({"tool": FINISH, "summary": said.texts.join("\n")}).to_string();
    }
    let lines: Vec<String> = said
        .calls
        .iter()
        .map(|call| {
            let mut map = Map::new();
            map.insert("tool".into(), json!(call.name));
            map.extend(
                call.input
                    .iter()
                    .filter(|(k, _)| *k != "tool")
                    .map(|(k, v)| (k.clone(), v.clone())),
            );
            Value::Object(map).to_string()
        })
        .collect();
    lines.join("\n")
}

/// Makes the reply of an answer in this mode.
pub(crate) fn assemble(mut draft: Draft, ground: Ground<'_>) -> Result<Made, Failure> {
    let cut = stop_of(draft.stop.as_deref()) == Ok(Stop::MaxTokens);
    let mut pieces = Vec::new();
    for piece in draft.pieces {
        let Piece::Text(text) = piece else {
            pieces.push(piece);
            continue;
        };
        let (thought, visible) = think::split(&text);
        if !thought.is_empty() {
            pieces.push(Piece::Thinking {
                text: thought,
                signature: None,
                extra: Map::new(),
            });
        }
        pieces.extend(read(&visible, cut, ground.tools));
    }
    draft.pieces = pieces;
    // Text is an answer here, never a call in disguise.
    let bare = Ground {
        tools: &[],
        ..ground
    };
    draft::assemble(draft, bare)
}

/// The action in a text, or the text.
fn read(text: &str, cut: bool, tools: &[ToolSpec]) -> Option<Piece> {
    let trimmed = text.trim();
    let body = trimmed
        .strip_prefix("```json")
        .or_else(|| trimmed.strip_prefix("```"))
        .unwrap_or(trimmed)
        .trim_start();
    if body.is_empty() {
        return None;
    }
    // One action a turn: what follows the first is not read.
    let first = serde_json::Deserializer::from_str(body)
        .into_iter::<Value>()
        .next();
    let map = match first {
        Some(Ok(Value::Object(map))) => map,
        _ if body.starts_with('{') => return broken(body, cut, tools),
        _ => return Some(Piece::Text(text.to_owned())),
    };
    let name = ["tool", "action", "name"]
        .iter()
        .find_map(|key| Some((*key, map.get(*key)?.as_str()?.to_owned())));
    let Some((key, name)) = name else {
        return Some(Piece::Text(text.to_owned()));
    };
    if name.eq_ignore_ascii_case(FINISH) {
        let summary = ["summary", "answer", "message"]
            .iter()
            .find_map(|key| map.get(*key)?.as_str());
        let summary = summary
            .filter(|s| !s.trim().is_empty())
            .unwrap_or("Finished.");
        return Some(Piece::Text(summary.to_owned()));
    }
    let nested = ["arguments", "parameters"]
        .iter()
        .find_map(|key| map.get(*key)?.as_object());
    let input = match nested {
        Some(nested) if map.len() == 2 => nested.clone(),
        _ => map.into_iter().filter(|(k, _)| k != key).collect(),
    };
    Some(call(name, Raw::Object(input)))
}

fn call(name: String, arguments: Raw) -> Piece {
    Piece::Call(RawCall {
        id: None,
        name,
        arguments,
    })
}

/// An action that does not parse: a call that must not run, if it says of what.
fn broken(body: &str, cut: bool, tools: &[ToolSpec]) -> Option<Piece> {
    let named = tools
        .iter()
        .find(|tool| body.contains(&format!("\"{}\"", tool.name)));
    match named {
        Some(tool) => Some(call(tool.name.to_owned(), Raw::Text(body.to_owned()))),
        None if cut => None,
        None => Some(Piece::Text(body.to_owned())),
    }
}

#[cfg(test)]
mod tests;
