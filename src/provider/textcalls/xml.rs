//! Qwen3-Coder's calls: `<function=Bash><parameter=command>..</parameter></function>`.

use serde_json::Map;

use super::super::ToolSpec;
use super::super::arguments::Raw;
use super::{Found, TextCall, UNCLOSED, put, typed};

/// One function, and the closing tag of what it stands in. `None` when no
/// function begins here.
pub(super) fn function(text: &str, tools: &[ToolSpec], wrapper: Option<&str>) -> Found {
    let inner = text.trim_start().strip_prefix("<function=")?;
    let (name, mut rest) = inner.split_once('>')?;
    let mut map = Map::new();
    let mut broken: Option<&'static str> = None;
    let closed = loop {
        let trimmed = rest.trim_start();
        if let Some(after) = trimmed.strip_prefix("</function>") {
            rest = after;
            break true;
        }
        // The model may forget this tag when the wrapper's follows.
        if let Some(tag) = wrapper
            && trimmed.starts_with(tag)
        {
            rest = trimmed;
            break true;
        }
        let Some((key, after)) = trimmed
            .strip_prefix("<parameter=")
            .and_then(|t| t.split_once('>'))
        else {
            break false;
        };
        let Some((value, after)) = after.split_once("</parameter>") else {
            rest = "";
            break false;
        };
        rest = after;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let key = key.trim();
        if let Err(why) = put(&mut map, key, typed(tools, name, key, value)) {
            broken = Some(why);
        }
    };
    if !closed {
        rest = "";
    } else if let Some(tag) = wrapper {
        rest = rest.trim_start().strip_prefix(tag).unwrap_or(rest);
    }
    let call = match (closed, broken) {
        (true, None) => TextCall::new(name, Raw::Object(map)),
        (true, Some(why)) => TextCall::broken(name, why),
        (false, _) => TextCall::broken(name, UNCLOSED),
    };
    Some((vec![call], text.len() - rest.len()))
}
