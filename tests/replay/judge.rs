//! The verdict over one run: the server's report, what the product says, the files.

use std::path::Path;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use serde_json::Value;

use super::server::Seen;
use super::{KEY, unbase64};

/// Every problem of a run; none means that it passes.
pub fn judge(expect: &Value, seen: &[Seen], actual: &Value, workspace: &Path) -> Vec<String> {
    let posts: Vec<&Seen> = seen.iter().filter(|s| s.counted).collect();
    let mut out: Vec<String> = posts
        .iter()
        .flat_map(|s| s.violations.iter().map(|v| format!("request {}: {v}", s.n)))
        .collect();
    out.extend(expectation(expect, posts.len(), actual, workspace));
    if let Some(alternatives) = expect.get("any_of").and_then(Value::as_array) {
        let tries: Vec<Vec<String>> = alternatives
            .iter()
            .map(|a| expectation(a, posts.len(), actual, workspace))
            .collect();
        if tries.iter().all(|problems| !problems.is_empty()) {
            let joined: Vec<String> = tries.iter().map(|problems| problems.join("; ")).collect();
            out.push(format!("no alternative fits: {}", joined.join(" | ")));
        }
    }
    if actual.to_string().contains(KEY) {
        out.push("G8 key in the result".into());
    }
    out
}

fn expectation(expect: &Value, posts: usize, actual: &Value, workspace: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let text = |key: &str| actual.get(key).and_then(Value::as_str).unwrap_or_default();
    for key in ["outcome", "error_class"] {
        if let Some(want) = expect.get(key)
            && actual.get(key) != Some(want)
        {
            let got = (text("outcome"), text("error_class"), text("error_text"));
            out.push(format!("{key}: {got:?}, want {want}"));
        }
    }
    if let Some(want) = expect.get("http_requests") {
        let (least, most) = match want.as_u64() {
            Some(exactly) => (exactly, exactly),
            None => {
                let bound =
                    |key: &str, other| want.get(key).and_then(Value::as_u64).unwrap_or(other);
                (bound("min", 0), bound("max", u64::MAX))
            }
        };
        if !(least..=most).contains(&(posts as u64)) {
            out.push(format!("{posts} HTTP requests, want {want}"));
        }
    }
    for key in ["final_text", "error_text"] {
        if let Some(rule) = expect.get(key) {
            text_rule(rule, text(key), key, &mut out);
        }
    }
    if let Some(want) = expect.get("executions").and_then(Value::as_array) {
        let any_order = expect.get("executions_order").and_then(Value::as_str) == Some("any");
        executions(want, actual, any_order, &mut out);
    }
    for (name, want) in expect
        .get("files")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        file(&workspace.join(name), name, want, &mut out);
    }
    if let Some(want) = expect.get("usage") {
        let got = actual.get("usage").filter(|u| !u.is_null());
        let fits = match want {
            Value::String(_) => got.is_none(),
            Value::Object(map) => {
                got.is_some_and(|got| map.iter().all(|(k, v)| got.get(k) == Some(v)))
            }
            _ => false,
        };
        if !fits {
            out.push(format!("usage {got:?}, want {want}"));
        }
    }
    out
}

fn text_rule(rule: &Value, text: &str, label: &str, out: &mut Vec<String>) {
    let list = |key: &str| {
        rule.get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    if let Some(want) = rule.get("equals").and_then(Value::as_str)
        && text.trim() != want.trim()
    {
        out.push(format!("{label} is {text:?}, want {want:?}"));
    }
    for want in list("contains").iter().filter_map(Value::as_str) {
        if !text.contains(want) {
            out.push(format!("{label} lacks {want:?}: {text:?}"));
        }
    }
    for ban in list("not_contains").iter().filter_map(Value::as_str) {
        if text.contains(ban) {
            out.push(format!("{label} has {ban:?}"));
        }
    }
    if let Some(pattern) = rule.get("matches").and_then(Value::as_str) {
        let matcher = RegexMatcher::new(pattern).expect("a regular expression in a case");
        if !matcher.is_match(text.as_bytes()).expect("a match") {
            out.push(format!("{label} does not match {pattern:?}: {text:?}"));
        }
    }
}

/// Whether all that is wanted is there, with the same JSON types.
fn subset(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => want
            .iter()
            .all(|(key, value)| got.get(key).is_some_and(|got| subset(value, got))),
        _ => want == got,
    }
}

fn executions(want: &[Value], actual: &Value, any_order: bool, out: &mut Vec<String>) {
    let empty = Vec::new();
    let got = actual
        .get("executions")
        .and_then(Value::as_array)
        .unwrap_or(&empty);
    let hit = |want: &Value, got: &Value| {
        let output = got
            .get("output")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let pieces = want.get("output_contains").and_then(Value::as_array);
        got.get("tool") == want.get("tool")
            && want
                .get("args")
                .is_none_or(|args| subset(args, got.get("args").unwrap_or(&Value::Null)))
            && want.get("ok").is_none_or(|ok| got.get("ok") == Some(ok))
            && pieces
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .all(|piece| output.contains(piece))
    };
    if got.len() != want.len() {
        out.push(format!(
            "{} executions, want {}: {got:?}",
            got.len(),
            want.len()
        ));
    } else if any_order {
        let mut left: Vec<&Value> = got.iter().collect();
        for one in want {
            match left.iter().position(|candidate| hit(one, candidate)) {
                Some(at) => {
                    left.remove(at);
                }
                None => out.push(format!("no execution like {one}")),
            }
        }
    } else {
        for (k, (one, candidate)) in want.iter().zip(got).enumerate() {
            if !hit(one, candidate) {
                out.push(format!("execution {k}: {candidate}, want {one}"));
            }
        }
    }
}

fn file(path: &Path, name: &str, want: &Value, out: &mut Vec<String>) {
    if want.get("absent") == Some(&Value::Bool(true)) {
        if path.symlink_metadata().is_ok() {
            out.push(format!("file {name} exists"));
        }
        return;
    }
    let Ok(bytes) = std::fs::read(path) else {
        out.push(format!("file {name} is missing"));
        return;
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().as_bytes().to_vec();
    let good = match (want.get("b64"), want.get("text_any")) {
        (Some(b64), _) => vec![unbase64(b64.as_str().unwrap_or_default())],
        (None, Some(Value::Array(list))) => list.iter().map(text).collect(),
        _ => vec![text(want.get("text").unwrap_or(&Value::Null))],
    };
    if !good.contains(&bytes) {
        out.push(format!(
            "file {name} is {:?}",
            String::from_utf8_lossy(&bytes)
        ));
    }
}
