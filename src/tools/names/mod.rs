//! From what a model asked for to what a tool takes. Pure.
//!
//! Names are met with tolerance (case, white space, the names of older tools
//! and of other harnesses), values with none: a string is not a number, a
//! boolean is not an integer, nothing is clamped in silence. Every refusal
//! says what would have been right.

mod table;

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use super::{Capability, ToolCall};
use crate::provider::ToolUse;
use table::{Kind, Param, TOOLS, Tool};

/// Longest piece of a model's own words that an error repeats.
const MAX_ECHO: usize = 80;

/// Longest deadline of a Bash call, in seconds.
pub const MAX_BASH_SECONDS: u64 = 1800;

/// The tools of a capability, in their stable order.
pub fn available(capability: Capability) -> impl Iterator<Item = &'static str> {
    TOOLS
        .iter()
        .filter(move |tool| offered(tool, capability))
        .map(|tool| tool.name)
}

/// Checks a call and gives it its canonical form. `allowed` is the restriction
/// of an agent file; it can take tools away and never adds one. The error is
/// the text for the model.
pub fn canonical(
    call: &ToolUse,
    capability: Capability,
    allowed: Option<&[String]>,
) -> Result<ToolCall, String> {
    let permitted = |tool: &Tool| {
        offered(tool, capability)
            && allowed.is_none_or(|names| names.iter().any(|name| tool.is_called(name)))
    };
    let choice = || {
        let names: Vec<&str> = TOOLS
            .iter()
            .filter(|tool| permitted(tool))
            .map(|tool| tool.name)
            .collect();
        format!("Available tools: {}.", names.join(", "))
    };
    let Some(tool) = TOOLS.iter().find(|tool| tool.is_called(&call.name)) else {
        return Err(format!(
            "ERROR: unknown tool {}. {}",
            echo(&call.name),
            choice()
        ));
    };
    if !offered(tool, capability) {
        return Err(format!(
            "ERROR: {} is not available in this read-only run. {}",
            tool.name,
            choice()
        ));
    }
    if !permitted(tool) {
        return Err(format!(
            "ERROR: {} is not available to this agent. {}",
            tool.name,
            choice()
        ));
    }
    if let Some(why) = &call.malformed {
        return Err(format!(
            "ERROR: the arguments of {} cannot be used: {}. {}",
            tool.name,
            cut(why),
            tool.usage()
        ));
    }
    let alias = tool.alias_of(&call.name);
    let (args, mapped) = arguments(tool, alias, &call.input)?;
    Ok(ToolCall {
        tool: tool.name,
        args,
        renamed: mapped || call.name != tool.name,
        alias,
    })
}

fn offered(tool: &Tool, capability: Capability) -> bool {
    match capability {
        Capability::Coding => true,
        Capability::Readonly => tool.readonly,
    }
}

/// The arguments under their canonical names, in the order of the schema, and
/// whether a name had to be mapped.
fn arguments(
    tool: &Tool,
    alias: Option<&'static str>,
    given: &Map<String, Value>,
) -> Result<(Map<String, Value>, bool), String> {
    let refuse = |what: String| {
        let mut text = format!("ERROR: {}: {what}. {}", tool.name, tool.usage());
        let received: Vec<String> = given.keys().map(|key| echo(key)).collect();
        let received = if received.is_empty() {
            "nothing".to_owned()
        } else {
            received.join(", ")
        };
        let _ = write!(text, " Received: {received}.");
        text
    };
    let mut args = Map::new();
    let mut mapped = false;
    let mut missing = Vec::new();
    for param in tool.params {
        let (value, by_alias) = param.pick(given);
        match value {
            // Models say `null` for "not given".
            None | Some(Value::Null) => {
                if param.required {
                    missing.push(param.name);
                }
            }
            Some(value) => {
                // The older tools forgave a bad number; agent files rely on it.
                let value = match (alias, lenient(param, value, alias)) {
                    (Some(_), Some(kept)) => kept,
                    _ => Some(checked(param, value).map_err(refuse)?),
                };
                if let Some(value) = value {
                    args.insert(param.name.to_owned(), value);
                }
                mapped |= by_alias;
            }
        }
    }
    // The only rule across arguments.
    if tool.name == "NotebookEdit"
        && !args.contains_key("new_source")
        && args.get("edit_mode").and_then(Value::as_str) != Some("delete")
    {
        missing.push("new_source");
    }
    if !missing.is_empty() {
        return Err(refuse(format!(
            "missing required arguments: {}",
            missing.join(", ")
        )));
    }
    Ok((args, mapped))
}

/// For a number of `read_file` or `run_bash`: what it comes to, `Some(None)`
/// for "as if it had not been given". `None`: no such leniency here.
fn lenient(param: &Param, value: &Value, alias: Option<&str>) -> Option<Option<Value>> {
    match (alias?, param.name) {
        ("read_file", "offset" | "limit") => {
            let positive = value.as_u64().filter(|number| *number >= 1);
            Some(positive.map(|number| Value::Number(number.into())))
        }
        ("run_bash", "timeout") => {
            let seconds = value.as_f64().filter(|seconds| *seconds >= 1.0);
            Some(seconds.map(|seconds| {
                // In range, so the cast only drops the fraction.
                let whole = seconds.min(MAX_BASH_SECONDS as f64) as u64;
                Value::Number(whole.into())
            }))
        }
        _ => None,
    }
}

fn checked(param: &Param, value: &Value) -> Result<Value, String> {
    let wanted = match (param.kind, value) {
        (Kind::Text, Value::String(_)) | (Kind::Flag, Value::Bool(_)) => return Ok(value.clone()),
        (Kind::Filled, Value::String(text)) if !text.trim().is_empty() => {
            return Ok(value.clone());
        }
        (Kind::Choice(words), Value::String(text)) if words.contains(&text.as_str()) => {
            return Ok(value.clone());
        }
        (Kind::Whole(from, to), Value::Number(number)) if within(number, from, to) => {
            return Ok(value.clone());
        }
        (Kind::Timeout, Value::Number(number)) if within(number, 1, MAX_BASH_SECONDS * 1000) => {
            return Ok(value.clone());
        }
        (Kind::Text, _) => "a string".to_owned(),
        (Kind::Filled, _) => "a string that is not empty".to_owned(),
        (Kind::Flag, _) => "true or false".to_owned(),
        (Kind::Choice(words), _) => format!("one of {}", words.join(", ")),
        (Kind::Whole(from, u64::MAX), _) => format!("a whole number of at least {from}"),
        (Kind::Whole(from, to), _) => format!("a whole number from {from} to {to}"),
        (Kind::Timeout, _) => format!(
            "a whole number of seconds from 1 to {MAX_BASH_SECONDS} (larger numbers count as \
             milliseconds, up to {})",
            MAX_BASH_SECONDS * 1000
        ),
    };
    Err(format!(
        "`{}` must be {wanted}, not {}",
        param.name,
        described(value)
    ))
}

fn within(number: &Number, from: u64, to: u64) -> bool {
    number
        .as_u64()
        .is_some_and(|number| (from..=to).contains(&number))
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", echo(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A model's own words in an error: quoted, escaped, cut.
fn echo(text: &str) -> String {
    format!("{:?}", cut(text))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_ECHO) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
