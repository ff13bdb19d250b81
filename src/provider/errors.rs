//! From what a server says to a stable class.
//!
//! One table for status codes, error bodies, error objects inside a stream and
//! error bodies under status 200, since each server puts the same thing in
//! another place. Order matters: a throttle that speaks of tokens is no full
//! context, and an empty account under status 429 is no rate limit.

use std::time::Duration;

use serde_json::Value;

use super::ErrorClass;

mod wordings;

/// Whether another try may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// As often as the settings allow.
    Yes,
    /// One more time.
    Once,
    /// Never.
    No,
}

/// A failed try, not yet an error for the caller.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Stable class.
    pub class: ErrorClass,
    /// HTTP status, if an answer began.
    pub status: Option<u16>,
    /// What the provider said, or what went wrong; not masked yet.
    pub message: String,
    /// Parameter that the provider names as the culprit.
    pub param: Option<String>,
    /// Wait that the server asked for.
    pub retry_after: Option<Duration>,
    /// Whether another try may help.
    pub again: Again,
}

impl Failure {
    /// A failure of a class with the class's usual answer to "again?".
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        use ErrorClass as C;
        let again = match class {
            C::RateLimit | C::Overloaded | C::UpstreamError | C::Transport | C::Protocol => {
                Again::Yes
            }
            C::EmptyResponse => Again::Once,
            _ => Again::No,
        };
        Failure {
            class,
            status: None,
            message: message.into(),
            param: None,
            retry_after: None,
            again,
        }
    }

    /// The connection failed or broke.
    pub fn transport(message: impl Into<String>) -> Self {
        Failure::new(ErrorClass::Transport, message)
    }

    /// The answer breaks the wire's rules, and a repetition may be better.
    pub fn protocol(message: impl Into<String>) -> Self {
        Failure::new(ErrorClass::Protocol, message)
    }

    /// The answer is of a shape that this server will send again.
    pub fn shape(message: impl Into<String>) -> Self {
        Failure {
            again: Again::No,
            ..Failure::protocol(message)
        }
    }
}

/// The parts of an error object, wherever they stood.
#[derive(Debug, Default)]
struct Parts {
    kind: String,
    code: String,
    message: String,
    param: Option<String>,
}

/// Classifies the body of an answer whose status is an error.
pub(crate) fn from_status(status: u16, body: &[u8]) -> Failure {
    // The header may say anything: look at the bytes.
    let text = String::from_utf8_lossy(body);
    let parts = match serde_json::from_slice::<Value>(body.trim_ascii()) {
        Ok(value) => parts_of(&value).unwrap_or_else(|| Parts {
            message: text.trim().to_owned(),
            ..Parts::default()
        }),
        Err(_) => Parts {
            message: plain(&text),
            ..Parts::default()
        },
    };
    judge(Some(status), parts)
}

/// The failure that a JSON body or a chunk of a stream reports, if it reports one.
pub(crate) fn from_value(value: &Value) -> Option<Failure> {
    let reports = match value {
        Value::Object(map) => {
            map.get("error")
                .is_some_and(|e| !e.is_null() && e != &Value::Bool(false))
                || map.get("type").and_then(Value::as_str) == Some("error")
                || map.get("object").and_then(Value::as_str) == Some("error")
                || base_response(value).is_some()
                || (!map.contains_key("choices")
                    && !map.contains_key("type")
                    && (map.contains_key("detail") || map.contains_key("errors")))
        }
        Value::Array(items) => items
            .first()
            .is_some_and(|first| first.get("error").is_some()),
        _ => false,
    };
    reports.then(|| judge(None, parts_of(value).unwrap_or_default()))
}

/// The failure in the data of an event that is called an error.
pub(crate) fn from_error_event(value: &Value) -> Failure {
    judge(None, parts_of(value).unwrap_or_default())
}

fn parts_of(value: &Value) -> Option<Parts> {
    if let Some((code, message)) = base_response(value) {
        return Some(Parts {
            code,
            message,
            ..Parts::default()
        });
    }
    match value {
        Value::Array(items) => items.first().and_then(parts_of),
        Value::Object(map) => {
            match map.get("error") {
                Some(Value::String(message)) if !message.is_empty() => {
                    return Some(Parts {
                        // `{"error":"overloaded","message":"..."}` says it in both.
                        kind: message.clone(),
                        code: word(map.get("code")),
                        message: match map.get("message").and_then(Value::as_str) {
                            Some(more) => format!("{message}: {more}"),
                            None => message.clone(),
                        },
                        ..Parts::default()
                    });
                }
                Some(inner @ Value::Object(_)) => return parts_of(inner),
                _ => {}
            }
            if let Some(Value::Array(list)) = map.get("errors")
                && let Some(inner @ Value::Object(_)) = list.first()
            {
                return parts_of(inner);
            }
            let message = ["message", "msg", "detail", "error_description", "title"]
                .iter()
                .find_map(|key| match map.get(*key) {
                    Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
                    Some(list @ (Value::Array(_) | Value::Object(_))) => Some(list.to_string()),
                    _ => None,
                })
                .unwrap_or_default();
            let param = map.get("param").and_then(Value::as_str).map(str::to_owned);
            Some(Parts {
                kind: [word(map.get("type")), word(map.get("status"))].join(" "),
                code: word(map.get("code")),
                message,
                param: param.filter(|p| !p.is_empty()),
            })
        }
        _ => None,
    }
}

/// MiniMax reports errors beside null choices, under status 200.
fn base_response(value: &Value) -> Option<(String, String)> {
    let base = value.get("base_resp")?;
    let code = word(base.get("status_code"));
    (!code.is_empty() && code != "0").then(|| {
        let message = base
            .get("status_msg")
            .and_then(Value::as_str)
            .unwrap_or_default();
        (code, message.to_owned())
    })
}

fn word(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Text of a page without its tags, on one line.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut depth = 0usize;
    let page = text.trim_start().starts_with('<');
    for c in text.chars() {
        match c {
            '<' if page => depth += 1,
            '>' if page => {
                depth = depth.saturating_sub(1);
                out.push(' ');
            }
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn judge(status: Option<u16>, parts: Parts) -> Failure {
    // Inside a stream the code of the object is all there is of a status.
    let coded = parts
        .code
        .parse::<u16>()
        .ok()
        .filter(|c| (400..600).contains(c));
    let effective = status.filter(|s| *s >= 300).or(coded);
    let mut message = parts.message.trim().to_owned();
    let code = parts.code.trim();
    if !code.is_empty() && coded.is_none() && !message.contains(code) {
        message = if message.is_empty() {
            code.to_owned()
        } else {
            format!("{message} ({code})")
        };
    }
    if message.is_empty() {
        message = parts.kind.trim().to_owned();
    }
    let class = wordings::class(effective, &parts.kind, code, &message);
    Failure {
        status,
        message,
        param: parts.param,
        ..Failure::new(class, "")
    }
}

#[cfg(test)]
mod tests;
