//! NotebookEdit: one cell of a Jupyter notebook.

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

use super::mutate::may_change;
use super::text::{BOM, Endings, endings, to_crlf};
use super::{Done, Fail, Gate, MAX_CHANGED, Worker, number, optional, string};
use crate::workspace::What;

/// What is asked of a notebook.
#[derive(Clone, Debug)]
struct Ask<'a> {
    mode: &'a str,
    id: Option<&'a str>,
    index: Option<u64>,
    kind: &'a str,
    source: &'a str,
}

/// What was done to it.
#[derive(Debug, PartialEq, Eq)]
struct Did {
    verb: &'static str,
    index: usize,
    id: Option<String>,
    cells: usize,
}

impl Worker {
    pub(super) fn notebook(
        &mut self,
        args: &Map<String, Value>,
        gate: &mut dyn Gate,
    ) -> Result<Done, Fail> {
        let asked = string(args, "notebook_path")?;
        let ask = Ask {
            mode: optional(args, "edit_mode").unwrap_or("replace"),
            id: optional(args, "cell_id"),
            index: number(args, "cell_index"),
            kind: optional(args, "cell_type").unwrap_or("code"),
            source: optional(args, "new_source").unwrap_or_default(),
        };
        let place = self.find(asked)?;
        if place.rel.extension().is_none_or(|ending| ending != "ipynb") {
            return Err(Fail::error(format!(
                "{asked} is no notebook: its name must end in .ipynb"
            )));
        }
        let exists = !matches!(place.what, What::Missing(_));
        if !exists && ask.mode != "insert" {
            return Err(Fail::error(format!(
                "{asked} does not exist; edit_mode insert creates it"
            )));
        }
        may_change(&place)?;
        let present = self.present(&place)?;
        let path = place.rel.display();
        let refuse = |why: String| Fail::error(format!("{path} was not changed: {why}"));
        let old = match &present {
            Some(present) => std::str::from_utf8(&present.bytes)
                .map_err(|_| refuse("it is not UTF-8".to_owned()))?,
            None => "",
        };
        let (mark, body) = match old.strip_prefix(BOM) {
            Some(body) => (BOM, body),
            None => ("", old),
        };
        let mut book = match &present {
            Some(_) => parsed(body).map_err(refuse)?,
            None => empty(),
        };
        let new_id = fresh_id();
        let did = change(&mut book, &ask, &new_id).map_err(refuse)?;
        let text = written(&book).map_err(|error| refuse(error.to_string()))?;
        let text = match endings(body) {
            // Inside strings line ends are escaped: these are all formatting.
            Endings::CrLf => to_crlf(&text),
            _ => text,
        };
        let text = format!("{mark}{text}");
        if text.len() as u64 > MAX_CHANGED {
            return Err(refuse(format!(
                "it would have {} bytes, at most {MAX_CHANGED} are written",
                text.len()
            )));
        }
        let say = format!(
            "OK: {} cell {}{} of {path}; it has {} cells now",
            did.verb,
            did.index,
            did.id.map(|id| format!(" (id {id})")).unwrap_or_default(),
            did.cells
        );
        let bytes = text.as_bytes();
        self.change("NotebookEdit", &place, present.as_ref(), bytes, say, gate)
    }
}

fn parsed(body: &str) -> Result<Value, String> {
    // Numbers that our reader would round would come back changed.
    if let Some(number) = unfit_number(body) {
        return Err(format!(
            "the number {number} in it would not survive being written again; use Bash"
        ));
    }
    let book: Value =
        serde_json::from_str(body).map_err(|error| format!("it is not valid JSON: {error}"))?;
    match book.get("cells") {
        Some(Value::Array(_)) => Ok(book),
        _ => Err("it has no list of cells".to_owned()),
    }
}

/// The first number in a JSON text that is too long to be kept exactly. Looks
/// at digits only; whether it is JSON at all is the parser's matter.
fn unfit_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'0'..=b'9' | b'-' => {
                let start = at;
                while at < bytes.len()
                    && matches!(bytes[at], b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
                {
                    at += 1;
                }
                let number = &text[start..at];
                let digits = number.bytes().filter(u8::is_ascii_digit).count();
                let whole = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
                if digits > 17 && !whole {
                    return Some(number);
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// A new Python notebook.
fn empty() -> Value {
    json!({
        "cells": [],
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    })
}

/// Changes one cell. Pure.
fn change(book: &mut Value, ask: &Ask<'_>, new_id: &str) -> Result<Did, String> {
    let with_ids = has_ids(book);
    let cells = book
        .get_mut("cells")
        .and_then(Value::as_array_mut)
        .ok_or("it has no list of cells")?;
    let target = find(cells, ask);
    match ask.mode {
        "insert" => {
            // Without an anchor that is there, the new cell goes to the end.
            let index = target.map_or(cells.len(), |anchor| anchor + 1);
            let id = with_ids.then(|| new_id.to_owned());
            cells.insert(index, new_cell(ask, id.as_deref()));
            Ok(did("inserted", index, id, cells.len()))
        }
        mode => {
            let index = target?;
            let id = |cell: &Value| cell.get("id").and_then(Value::as_str).map(str::to_owned);
            if mode == "delete" {
                let gone = cells.remove(index);
                return Ok(did("deleted", index, id(&gone), cells.len()));
            }
            let length = cells.len();
            let cell = cells[index]
                .as_object_mut()
                .ok_or_else(|| format!("cell {index} is no object"))?;
            cell.insert("source".to_owned(), lines(ask.source));
            if cell.get("cell_type").and_then(Value::as_str) == Some("code") {
                // What the old source printed says nothing of the new one.
                cell.insert("outputs".to_owned(), json!([]));
                cell.insert("execution_count".to_owned(), Value::Null);
            }
            let id = id(&cells[index]);
            Ok(did("replaced", index, id, length))
        }
    }
}

fn did(verb: &'static str, index: usize, id: Option<String>, cells: usize) -> Did {
    Did {
        verb,
        index,
        id,
        cells,
    }
}

/// The cell that is named; the id wins.
fn find(cells: &[Value], ask: &Ask<'_>) -> Result<usize, String> {
    if let Some(id) = ask.id {
        return cells
            .iter()
            .position(|cell| cell.get("id").and_then(Value::as_str) == Some(id))
            .ok_or_else(|| format!("no cell has the id {id:?}"));
    }
    let Some(index) = ask.index else {
        return Err("no cell is named; give cell_id or cell_index".to_owned());
    };
    match usize::try_from(index) {
        Ok(at) if at < cells.len() => Ok(at),
        _ if cells.is_empty() => Err(format!("cell_index {index}: the notebook has no cells")),
        _ => Err(format!(
            "cell_index {index} is out of range, 0 to {} are there",
            cells.len() - 1
        )),
    }
}

/// Cells have ids from nbformat 4.5 on; before that an id is an error.
fn has_ids(book: &Value) -> bool {
    let version = |name: &str| book.get(name).and_then(Value::as_u64).unwrap_or(0);
    (version("nbformat"), version("nbformat_minor")) >= (4, 5)
}

fn new_cell(ask: &Ask<'_>, id: Option<&str>) -> Value {
    let mut cell = Map::new();
    cell.insert("cell_type".to_owned(), json!(ask.kind));
    if ask.kind == "code" {
        cell.insert("execution_count".to_owned(), Value::Null);
    }
    if let Some(id) = id {
        cell.insert("id".to_owned(), json!(id));
    }
    cell.insert("metadata".to_owned(), json!({}));
    if ask.kind == "code" {
        cell.insert("outputs".to_owned(), json!([]));
    }
    cell.insert("source".to_owned(), lines(ask.source));
    Value::Object(cell)
}

/// A source as notebooks keep it: lines with their line ends.
fn lines(source: &str) -> Value {
    if source.is_empty() {
        return json!([""]);
    }
    source.split_inclusive('\n').map(Value::from).collect()
}

/// One space of indent, as Jupyter writes, and a line end at the end.
fn written(book: &Value) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b" "));
    book.serialize(&mut serializer)?;
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

/// Eight hex digits.
fn fresh_id() -> String {
    format!("{:08x}", ulid::Ulid::generate().0 as u32)
}

#[cfg(test)]
mod tests;
