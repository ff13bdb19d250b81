//! DeepSeek's markup. Its bars come as U+FF5C, U+2016 or `|`, one or two of
//! them; the outer tag is called `tool_calls` or `function_calls`, or is missing.

use serde_json::{Map, Value};

use super::super::ToolSpec;
use super::super::arguments::Raw;
use super::{Found, TextCall, UNCLOSED, put, typed};

const BARS: [char; 3] = ['\u{ff5c}', '\u{2016}', '|'];

/// A tag at the start of a text.
struct Tag<'a> {
    closing: bool,
    /// Name and attributes, without bars and brackets.
    body: &'a str,
    length: usize,
}

impl Tag<'_> {
    fn is(&self, name: &str) -> bool {
        self.body.split_whitespace().next() == Some(name)
    }

    fn is_wrapper(&self) -> bool {
        self.is("tool_calls") || self.is("function_calls")
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let (_, after) = self.body.split_once(&format!("{name}=\""))?;
        after.split('"').next()
    }
}

fn tag(text: &str) -> Option<Tag<'_>> {
    let inner = text.strip_prefix('<')?;
    let (closing, inner) = match inner.strip_prefix('/') {
        Some(inner) => (true, inner),
        None => (false, inner),
    };
    let after_bars = inner.trim_start_matches(BARS);
    if after_bars.len() == inner.len() {
        return None;
    }
    let inner = after_bars.strip_prefix("DSML")?;
    let body = inner.trim_start_matches(BARS);
    if body.len() == inner.len() {
        return None;
    }
    let end = body.find('>')?;
    Some(Tag {
        closing,
        body: body[..end].trim(),
        length: text.len() - body.len() + end + 1,
    })
}

/// The next tag of the markup and where it stands.
fn next_tag(text: &str) -> Option<(usize, Tag<'_>)> {
    text.match_indices('<')
        .find_map(|(at, _)| Some((at, tag(&text[at..])?)))
}

/// A block of calls at the start of the text.
pub(super) fn block(text: &str, tools: &[ToolSpec]) -> Found {
    let first = tag(text)?;
    if first.closing {
        // A stray end tag is markup too, and nobody's answer.
        return Some((Vec::new(), first.length));
    }
    let wrapped = first.is_wrapper();
    if !wrapped && !first.is("invoke") {
        return None;
    }
    let mut rest = if wrapped { &text[first.length..] } else { text };
    let mut calls = Vec::new();
    loop {
        let trimmed = rest.trim_start();
        let Some(tag) = tag(trimmed) else { break };
        if tag.closing && tag.is_wrapper() {
            rest = &trimmed[tag.length..];
            break;
        }
        if tag.closing || !tag.is("invoke") {
            // A wrapper that begins anew, or something lost: take it away.
            rest = &trimmed[tag.length..];
            continue;
        }
        let (call, length) = invoke(trimmed, &tag, tools);
        calls.push(call);
        rest = &trimmed[length..];
    }
    Some((calls, text.len() - rest.len()))
}

/// One call and the bytes that it takes up.
fn invoke(text: &str, open: &Tag<'_>, tools: &[ToolSpec]) -> (TextCall, usize) {
    let name = open.attribute("name").unwrap_or_default().to_owned();
    let mut map = Map::new();
    let mut broken: Option<&'static str> = None;
    let mut at = open.length;
    loop {
        let Some((gap, tag)) = next_tag(&text[at..]) else {
            return (TextCall::broken(&name, UNCLOSED), text.len());
        };
        at += gap + tag.length;
        if tag.closing && tag.is("invoke") {
            let call = match broken {
                None => TextCall::new(&name, Raw::Object(map)),
                Some(why) => TextCall::broken(&name, why),
            };
            return (call, at);
        }
        if tag.closing || !tag.is("parameter") {
            // The markup began again inside itself.
            broken = Some("the call's markup is broken and it did not run; send it again");
            continue;
        }
        let (key, kind) = (
            tag.attribute("name").unwrap_or_default(),
            tag.attribute("string"),
        );
        let Some((length, end)) = next_tag(&text[at..]) else {
            return (TextCall::broken(&name, UNCLOSED), text.len());
        };
        let value = &text[at..at + length];
        if !(end.closing && end.is("parameter")) {
            broken = Some("a parameter of the call is broken off; send it again");
            at += length;
            continue;
        }
        at += length + end.length;
        let value = match kind {
            Some("true") => Value::String(value.to_owned()),
            Some("false") => match serde_json::from_str(value.trim()) {
                Ok(value) => value,
                Err(_) => {
                    broken = Some("a parameter of the call is not valid JSON");
                    continue;
                }
            },
            _ => typed(tools, &name, key, value),
        };
        if let Err(why) = put(&mut map, key, value) {
            broken = Some(why);
        }
    }
}
