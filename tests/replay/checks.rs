//! What every request must keep (the G rules), and what one case asks of one.

use std::collections::HashSet;

use serde_json::Value;

use super::wire::{self, Message};
use super::{KEY, MODEL};

/// The request before, as the rules need it.
#[derive(Clone, Debug)]
pub struct Before {
    pub raw: Vec<u8>,
    pub status: u16,
}

/// A request as it came in.
pub struct Request<'a> {
    pub format: &'a str,
    pub path: &'a str,
    /// Values of the two key headers, joined.
    pub key: &'a str,
    pub raw: &'a [u8],
    pub before: Option<&'a Before>,
}

/// Violations of the G rules, and the body if it is one.
pub fn invariants(request: &Request<'_>) -> (Vec<String>, Option<Value>) {
    let mut out = Vec::new();
    let parsed = std::str::from_utf8(request.raw)
        .map_err(|e| e.to_string())
        .and_then(|text| {
            serde_json::from_str::<Value>(text)
                .map(|body| (text, body))
                .map_err(|e| e.to_string())
        });
    let (text, body) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => return (vec![format!("G0 body is not UTF-8 JSON: {why}")], None),
    };
    let openai = request.format == "openai";
    let want = if openai {
        "/chat/completions"
    } else {
        "/messages"
    };
    let path = request.path.split('?').next().unwrap_or_default();
    if !path.ends_with(want) {
        out.push(format!("G0 path {path} does not end with {want}"));
    }
    if body.get("stream") != Some(&Value::Bool(true)) {
        out.push("G0 stream is not true".into());
    }
    if body.get("model").and_then(Value::as_str) != Some(MODEL) {
        out.push("G0 model is not replay-model".into());
    }
    if !request.key.contains(KEY) {
        out.push("G0 key header missing".into());
    }
    if body
        .get("tools")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        out.push("G1 no tools offered".into());
    }
    let messages = wire::messages(request.format, &body);
    calls(openai, &messages, &mut out);
    pairing(openai, &messages, &mut out);
    if text.contains('\u{fffd}') || text.to_lowercase().contains("\\ufffd") {
        out.push("G5 U+FFFD in body".into());
    }
    emptiness(openai, &messages, &mut out);
    roles(openai, &messages, &mut out);
    if text.contains(KEY) {
        out.push("G8 key inside the body".into());
    }
    if let Some(before) = request.before
        && matches!(before.status, 400 | 401 | 402 | 403 | 404 | 413 | 422)
        && before.raw == request.raw
    {
        out.push(format!("G9 same body sent again after a {}", before.status));
    }
    (out, Some(body))
}

/// G2 and G4.
fn calls(openai: bool, messages: &[Message], out: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for call in messages.iter().flat_map(|m| &m.calls) {
        match call.id.as_str().filter(|id| !id.trim().is_empty()) {
            None => out.push("G2 empty tool call id".into()),
            Some(id) => {
                if !seen.insert(id) {
                    out.push(format!("G2 tool call id {id} used twice"));
                }
            }
        }
        let name = call.name.as_str().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            out.push(format!("G4 bad tool name {}", call.name));
        }
        match (&call.args, openai) {
            (Value::String(text), true) => match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(_)) => {}
                Ok(_) => out.push("G4 arguments is not a JSON object".into()),
                Err(_) => out.push(format!("G4 arguments do not parse: {text:?}")),
            },
            (_, true) => out.push("G4 arguments is not a string".into()),
            (Value::Object(_), false) => {}
            (_, false) => out.push("G4 input is not an object".into()),
        }
    }
}

/// G3.
fn pairing(openai: bool, messages: &[Message], out: &mut Vec<String>) {
    let mut at = 0;
    while at < messages.len() {
        let message = &messages[at];
        if message.calls.is_empty() {
            if !message.results.is_empty() {
                out.push("G3 tool result without a call just before it".into());
            }
            at += 1;
            continue;
        }
        let mut want: Vec<String> = message.calls.iter().map(|c| c.id.to_string()).collect();
        let mut got: Vec<String> = Vec::new();
        let mut next = at + 1;
        if openai {
            while next < messages.len() && messages[next].role == "tool" {
                got.extend(messages[next].results.iter().map(|r| r.id.to_string()));
                next += 1;
            }
        } else if next < messages.len() && messages[next].role == "user" {
            let kinds = wire::kinds(&messages[next].content);
            let first_other = kinds
                .iter()
                .position(|k| k != "tool_result")
                .unwrap_or(kinds.len());
            if kinds[first_other..].iter().any(|k| k == "tool_result") {
                out.push("G3 tool_result after another block".into());
            }
            got = messages[next]
                .results
                .iter()
                .map(|r| r.id.to_string())
                .collect();
            next += 1;
        }
        want.sort();
        got.sort();
        if want != got {
            out.push(format!("G3 calls {want:?} answered by {got:?}"));
        }
        at = next;
    }
}

/// G6.
fn emptiness(openai: bool, messages: &[Message], out: &mut Vec<String>) {
    for message in messages {
        let blank = message.text.trim().is_empty();
        if message.role == "assistant" && message.calls.is_empty() && blank {
            out.push("G6 empty assistant message".into());
        }
        if message.role == "user" && message.results.is_empty() && blank {
            out.push("G6 empty user message".into());
        }
        if let (false, Value::Array(blocks)) = (openai, &message.content) {
            for block in blocks {
                let text = block
                    .get("text")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if block.get("type").and_then(Value::as_str) == Some("text")
                    && text.trim().is_empty()
                {
                    out.push("G6 empty text block".into());
                }
            }
        }
    }
}

/// G7.
fn roles(openai: bool, messages: &[Message], out: &mut Vec<String>) {
    let roles: Vec<&str> = messages.iter().map(|m| m.role.as_str()).collect();
    if openai {
        let late = (1..roles.len()).any(|k| {
            roles[k] == "developer"
                || (roles[k] == "system" && roles[..k].iter().any(|role| *role != "system"))
        });
        if late {
            out.push("G7 system message after another role".into());
        }
    } else if roles.first() != Some(&"user") || roles.windows(2).any(|pair| pair[0] == pair[1]) {
        out.push(format!("G7 roles do not alternate: {roles:?}"));
    }
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    let list = value.get(key).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect()
}

/// What the case asks of this request.
pub fn request(
    rule: &Value,
    format: &str,
    raw: &[u8],
    body: &Value,
    gap_ms: Option<f64>,
    before: Option<&Before>,
) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(gap) = gap_ms {
        if let Some(least) = rule
            .get("min_gap_ms")
            .and_then(Value::as_f64)
            .filter(|least| gap < *least)
        {
            out.push(format!("gap {gap:.0} ms < {least}"));
        }
        if let Some(most) = rule
            .get("max_gap_ms")
            .and_then(Value::as_f64)
            .filter(|most| gap > *most)
        {
            out.push(format!("gap {gap:.0} ms > {most}"));
        }
    }
    for pointer in strings(rule, "body_has") {
        if body.pointer(&pointer).is_none() {
            out.push(format!("body lacks {pointer}"));
        }
    }
    for pointer in strings(rule, "body_lacks") {
        if body.pointer(&pointer).is_some() {
            out.push(format!("body still has {pointer}"));
        }
    }
    if rule.get("body_bytes_lt_prev") == Some(&Value::Bool(true))
        && let Some(before) = before
        && raw.len() >= before.raw.len()
    {
        out.push(format!(
            "body did not shrink: {} -> {}",
            before.raw.len(),
            raw.len()
        ));
    }
    // On the body written anew too, so that escapes do not matter.
    let text = format!("{}\n{body}", String::from_utf8_lossy(raw));
    for want in strings(rule, "text_contains") {
        if !text.contains(&want) {
            out.push(format!("body does not contain {want:?}"));
        }
    }
    for ban in strings(rule, "text_not_contains") {
        if text.contains(&ban) {
            out.push(format!("body contains {ban:?}"));
        }
    }
    let messages = wire::messages(format, body);
    let said: Vec<&Message> = messages.iter().filter(|m| m.role == "assistant").collect();
    if let Some(want) = rule.get("last_assistant") {
        match said.last() {
            Some(message) => assistant(message, want, "last_assistant", &mut out),
            None => out.push("no assistant message".into()),
        }
    }
    let turns = rule.get("assistant_turns").and_then(Value::as_array);
    for (k, want) in turns.into_iter().flatten().enumerate() {
        match said.get(k) {
            Some(message) => assistant(message, want, &format!("assistant turn {k}"), &mut out),
            None => out.push(format!("assistant turn {k} missing")),
        }
    }
    if let Some(want) = rule.get("tool_results").and_then(Value::as_array) {
        let any_order = rule.get("tool_results_order").and_then(Value::as_str) == Some("any");
        results(&messages, want, any_order, format, &mut out);
    }
    out
}

fn assistant(message: &Message, want: &Value, label: &str, out: &mut Vec<String>) {
    if let Some(calls) = want.get("calls").and_then(Value::as_u64)
        && message.calls.len() as u64 != calls
    {
        out.push(format!(
            "{label}: {} calls, want {calls}",
            message.calls.len()
        ));
    }
    if let Some(reasoning) = want.get("reasoning_equals") {
        let mut fields = strings(want, "reasoning_field_any");
        if let Some(field) = want.get("reasoning_field").and_then(Value::as_str) {
            fields = vec![field.to_owned()];
        } else if fields.is_empty() {
            fields = ["reasoning_content", "reasoning", "reasoning_details"]
                .map(str::to_owned)
                .to_vec();
        }
        if !fields
            .iter()
            .any(|field| message.reasoning.get(field) == Some(reasoning))
        {
            out.push(format!(
                "{label}: reasoning not sent back under {fields:?}: {:?}",
                message.reasoning
            ));
        }
    }
    if let Some(blocks) = want.get("thinking_blocks").and_then(Value::as_array) {
        let keys = ["type", "thinking", "signature", "data"];
        let kept = |block: &Value| -> Value {
            keys.iter()
                .filter_map(|key| Some(((*key).to_owned(), block.get(*key)?.clone())))
                .collect()
        };
        let got: Vec<Value> = message.thinking.iter().map(kept).collect();
        if got != *blocks {
            out.push(format!("{label}: thinking blocks {got:?}"));
        }
        let first: Vec<String> = wire::kinds(&message.content)
            .into_iter()
            .take(blocks.len())
            .collect();
        let kinds: Vec<&str> = blocks
            .iter()
            .filter_map(|b| b.get("type")?.as_str())
            .collect();
        if first != kinds {
            out.push(format!("{label}: thinking blocks are not first: {first:?}"));
        }
    }
}

fn results(
    messages: &[Message],
    want: &[Value],
    any_order: bool,
    format: &str,
    out: &mut Vec<String>,
) {
    let last = messages.iter().rposition(|m| m.role == "assistant");
    let calls = last
        .map(|k| messages[k].calls.as_slice())
        .unwrap_or_default();
    let got: Vec<&wire::Result> = messages[last.map_or(0, |k| k + 1)..]
        .iter()
        .flat_map(|m| &m.results)
        .collect();
    if got.len() != want.len() {
        out.push(format!("{} tool results, want {}", got.len(), want.len()));
    }
    if any_order {
        let mut left = got;
        for rule in want {
            match left
                .iter()
                .position(|result| result_problems(rule, result).is_empty())
            {
                Some(at) => {
                    left.remove(at);
                }
                None => out.push(format!("no tool result for {rule}")),
            }
        }
        return;
    }
    for (k, rule) in want.iter().enumerate() {
        let place = rule.get("call").and_then(Value::as_u64).unwrap_or(k as u64) as usize;
        let id = rule
            .get("id")
            .filter(|id| id.as_str() != Some(""))
            .or_else(|| calls.get(place).map(|c| &c.id));
        match got.iter().rev().find(|result| Some(&result.id) == id) {
            Some(result) => out.extend(result_problems(rule, result)),
            None => out.push(format!("no tool result for call {rule}")),
        }
    }
    let same_order = got.iter().map(|r| &r.id).eq(calls.iter().map(|c| &c.id));
    if format == "anthropic" && !same_order {
        out.push("tool_result order differs from tool_use order".into());
    }
}

/// Words by which a result without a flag says that it failed.
const ERROR_WORDS: [&str; 20] = [
    "error",
    "fail",
    "invalid",
    "unknown",
    "not found",
    "no such",
    "does not exist",
    "unavailable",
    "denied",
    "missing",
    "required",
    "must",
    "cannot",
    "can't",
    "truncat",
    "incomplete",
    "cut off",
    "not unique",
    "multiple",
    "matches",
];

fn result_problems(rule: &Value, result: &wire::Result) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(id) = rule.get("id")
        && *id != result.id
    {
        out.push(format!("id {} != {id}", result.id));
    }
    let start: String = result.text.chars().take(120).collect();
    for want in strings(rule, "contains") {
        if !result.text.contains(&want) {
            out.push(format!("result lacks {want:?}: {start:?}"));
        }
    }
    for ban in strings(rule, "not_contains") {
        if result.text.contains(&ban) {
            out.push(format!("result has {ban:?}"));
        }
    }
    if rule.get("looks_error") == Some(&Value::Bool(true)) {
        let text = result.text.to_lowercase();
        let looks = result
            .is_error
            .unwrap_or_else(|| ERROR_WORDS.iter().any(|word| text.contains(word)));
        if !looks {
            out.push(format!("result does not look like an error: {start:?}"));
        }
    }
    out
}
