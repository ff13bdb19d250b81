//! Tool calls that a server left in the text.
//!
//! Servers without a parser for a model's own format, or with one that gives
//! up, pass the markup on as words. It is read here on the whole text, never on
//! a chunk. What stands in a code fence, in inline code or in reasoning is talk
//! about a call and does not run. A call that was not closed does not run
//! either; the model is told.

use serde_json::{Map, Value};

use super::ToolSpec;
use super::arguments::{self, Parsed, Raw};

mod dsml;
mod json_calls;
mod xml;

pub(crate) use json_calls::looks_begun;

/// A call found in text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TextCall {
    /// Name as written.
    pub name: String,
    /// Its arguments, or why it must not run.
    pub parsed: Parsed,
}

impl TextCall {
    fn new(name: &str, raw: Raw) -> Self {
        TextCall {
            name: name.trim().to_owned(),
            parsed: arguments::parse(&raw),
        }
    }

    fn broken(name: &str, why: &str) -> Self {
        TextCall {
            name: name.trim().to_owned(),
            parsed: Parsed::bad(why),
        }
    }
}

/// What a text held.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recovered {
    /// The text without the markup.
    pub text: String,
    /// The calls in order.
    pub calls: Vec<TextCall>,
    /// The whole text was a bare JSON call, without any markup.
    pub bare: bool,
}

/// Calls of one piece of markup and the bytes that it takes up.
type Found = Option<(Vec<TextCall>, usize)>;

/// Why an unclosed call does not run.
const UNCLOSED: &str = "the call was not closed and did not run; send it again, whole";

/// Finds the calls in a text. `tools` are the tools on offer.
pub(crate) fn recover(text: &str, tools: &[ToolSpec]) -> Recovered {
    if let Some(calls) = json_calls::whole_message(text, tools) {
        return Recovered {
            text: String::new(),
            calls,
            bare: true,
        };
    }
    let mut found = Recovered::default();
    let mut fenced = false;
    let mut rest = text;
    let mut line_start = true;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        if line_start && rest.trim_start_matches([' ', '\t']).starts_with("```") {
            fenced = !fenced;
        }
        if matches!(c, '<' | '[') && !fenced && before != '`' {
            if let Some(length) = thought(rest) {
                found.text.push_str(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            if let Some((calls, length)) = markup(rest, tools) {
                found.calls.extend(calls);
                rest = &rest[length..];
                before = ' ';
                line_start = false;
                continue;
            }
        }
        line_start = c == '\n';
        before = c;
        found.text.push(c);
        rest = &rest[c.len_utf8()..];
    }
    if !found.calls.is_empty() {
        found.text = found.text.trim().to_owned();
    }
    found
}

/// Length of a stretch of inline reasoning at the start.
fn thought(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("<think>")?;
    Some(
        inner
            .find("</think>")
            .map_or(text.len(), |at| at + "<think></think>".len()),
    )
}

fn markup(text: &str, tools: &[ToolSpec]) -> Found {
    if let Some(inner) = text.strip_prefix("<tool_call>") {
        let skipped = text.len() - inner.len();
        let found = xml::function(inner, tools, Some("</tool_call>"))
            .or_else(|| json_calls::tagged(inner, "</tool_call>"));
        return found.map(|(calls, length)| (calls, skipped + length));
    }
    if text.starts_with("<function=") {
        return xml::function(text, tools, None);
    }
    for (open, close) in [
        ("[TOOL_CALL]", "[/TOOL_CALL]"),
        ("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"),
    ] {
        if let Some(inner) = text.strip_prefix(open) {
            return json_calls::tagged(inner, close)
                .map(|(calls, length)| (calls, open.len() + length));
        }
    }
    if let Some(inner) = text.strip_prefix("<|python_tag|>") {
        let (calls, length) = json_calls::tagged(inner, "<|eom_id|>")?;
        return known(&calls, tools).then_some((calls, text.len() - inner.len() + length));
    }
    if text.starts_with("<|channel|>") || text.starts_with("<|start|>") {
        return json_calls::harmony(text, tools);
    }
    dsml::block(text, tools)
}

fn known(calls: &[TextCall], tools: &[ToolSpec]) -> bool {
    calls.iter().all(|call| spec(tools, &call.name).is_some())
}

fn spec<'a>(tools: &'a [ToolSpec], name: &str) -> Option<&'a ToolSpec> {
    tools
        .iter()
        .find(|tool| tool.name.eq_ignore_ascii_case(name.trim()))
}

/// A parameter's value as its schema wants it. Text stays text, verbatim.
fn typed(tools: &[ToolSpec], tool: &str, parameter: &str, text: &str) -> Value {
    let kind = spec(tools, tool)
        .and_then(|t| t.schema.pointer(&format!("/properties/{parameter}/type")))
        .and_then(Value::as_str)
        .unwrap_or("string");
    if kind == "string" {
        return Value::String(text.to_owned());
    }
    // Python writes its truth values with a capital.
    let plain = match text.trim() {
        "True" => "true",
        "False" => "false",
        other => other,
    };
    serde_json::from_str(plain).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Adds a parameter; the same one twice with different values breaks the call.
fn put(map: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), &'static str> {
    match map.get(key) {
        Some(before) if *before != value => Err("a parameter is given twice with different values"),
        _ => {
            map.insert(key.to_owned(), value);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
