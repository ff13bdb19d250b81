//! Putting the pieces of tool calls together.
//!
//! Which call a piece belongs to is told by index and id, and servers disagree
//! on both: no index at all, every call at index 0, the id again in each piece,
//! an empty id, the word "null", or a name that comes last. State lives for
//! the whole stream, never for one chunk.

use serde_json::{Map, Value};

use super::arguments::Raw;

/// A call with its pieces joined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawCall {
    /// The provider's id, where it gave a usable one.
    pub id: Option<String>,
    /// The name; empty when none came.
    pub name: String,
    /// The arguments.
    pub arguments: Raw,
}

#[derive(Debug, Default)]
struct Part {
    index: Option<i64>,
    id: Option<String>,
    name: String,
    text: String,
    object: Option<Map<String, Value>>,
}

impl Part {
    /// Whether its arguments are a whole object already.
    fn complete(&self) -> bool {
        self.object.is_some() || serde_json::from_str::<Map<String, Value>>(&self.text).is_ok()
    }

    fn untouched(&self) -> bool {
        self.object.is_none() && self.text.trim().is_empty()
    }
}

/// The calls of one answer while it streams.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    parts: Vec<Part>,
    /// Position of the part that the last piece went to.
    last: Option<usize>,
}

/// More calls than this in one answer are noise; the pieces beyond are dropped.
const MOST: usize = 256;

impl Assembler {
    /// Takes one element of `tool_calls`; `known` are the names of the tools on offer.
    pub fn piece(&mut self, piece: &Value, known: &[&str]) {
        let function = piece.get("function").unwrap_or(piece);
        let id = piece.get("id").and_then(usable_id);
        let index = piece.get("index").and_then(whole_number);
        let name = function
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (text, object) = match function.get("arguments") {
            Some(Value::String(text)) => (text.as_str(), None),
            Some(Value::Object(map)) => ("", Some(map)),
            _ => ("", None),
        };
        let starts = object.is_some() || text.trim_start().starts_with('{');
        let at = match self.owner(id.as_deref(), index, name, starts) {
            Some(at) => at,
            None if self.parts.len() >= MOST => return,
            None => {
                self.parts.push(Part::default());
                self.parts.len() - 1
            }
        };
        self.last = Some(at);
        let part = &mut self.parts[at];
        part.index = part.index.or(index);
        part.id = part.id.take().or(id);
        if part.name.is_empty() {
            part.name = name.to_owned();
        } else if part.untouched() && name != part.name && !known.contains(&part.name.as_str()) {
            // A name in pieces, known by the tool that it adds up to.
            let joined = format!("{}{name}", part.name);
            if known.iter().any(|tool| tool.starts_with(&joined)) {
                part.name = joined;
            }
        }
        part.text.push_str(text);
        if let Some(object) = object
            && !object.is_empty()
        {
            part.object = Some(object.clone());
        } else if object.is_some() && part.untouched() {
            part.object = Some(Map::new());
        }
    }

    /// The part that a piece continues; `None` starts a new one.
    fn owner(
        &self,
        id: Option<&str>,
        index: Option<i64>,
        name: &str,
        starts: bool,
    ) -> Option<usize> {
        // The newest at an index: the ones before it are done.
        let at_index = index.and_then(|i| self.parts.iter().rposition(|p| p.index == Some(i)));
        if let Some(id) = id {
            if let Some(at) = at_index {
                let part = &self.parts[at];
                return match &part.id {
                    Some(have) if have == id => Some(at),
                    Some(_) => None,
                    None if !name.is_empty() && !part.name.is_empty() && part.complete() => None,
                    None => Some(at),
                };
            }
            // The same id without an index, or with the index only now.
            return self.parts.iter().rposition(|p| {
                p.id.as_deref() == Some(id) && (index.is_none() || p.index.is_none())
            });
        }
        let at = match index {
            Some(_) => at_index?,
            None => self.last?,
        };
        let part = &self.parts[at];
        // Without an id only a fresh name after whole arguments tells a new call.
        let fresh = !name.is_empty() && !part.name.is_empty() && part.complete() && starts;
        let renamed =
            index.is_none() && !name.is_empty() && !part.name.is_empty() && name != part.name;
        if (fresh && !self.repeats(part, name)) || (renamed && !part.untouched()) {
            return None;
        }
        Some(at)
    }

    /// A server that sends the same call again at the end gives its name again too.
    fn repeats(&self, part: &Part, name: &str) -> bool {
        part.name == name && part.id.is_some()
    }

    /// Whether some arguments began and are not whole.
    pub fn unfinished(&self) -> bool {
        self.parts
            .iter()
            .any(|p| !p.untouched() && !p.complete() && p.text.trim_start().starts_with('{'))
    }

    /// The calls in the order in which they began, or by index where all have one.
    pub fn finish(mut self) -> Vec<RawCall> {
        if self.parts.iter().all(|p| p.index.is_some()) {
            self.parts.sort_by_key(|p| p.index);
        }
        self.parts
            .into_iter()
            .filter(|p| !(p.name.trim().is_empty() && p.untouched() && p.id.is_none()))
            .map(|p| RawCall {
                id: p.id,
                name: p.name,
                arguments: match p.object {
                    Some(object) => Raw::Object(object),
                    None => Raw::Text(p.text),
                },
            })
            .collect()
    }
}

/// An id that can go back: text, not blank, not the word that some servers make
/// of a missing one.
pub(crate) fn usable_id(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let good = !text.is_empty()
        && !matches!(text.as_str(), "null" | "None" | "undefined")
        && text.len() <= 256
        && !text.chars().any(char::is_control);
    good.then_some(text)
}

fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
