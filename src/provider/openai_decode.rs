//! An answer on the OpenAI wire, streamed or whole.
//!
//! Reads field by field: one odd field never costs the rest of a chunk.

use serde_json::{Map, Value, json};

use super::calls::Assembler;
use super::draft::{Draft, Piece};
use super::errors::{self, Failure};
use super::think::Live;
use super::{ProviderEvent, Usage, wirejson};

/// Fields that hold reasoning as text, in the order of preference.
const FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];
const DETAILS: &str = "reasoning_details";

/// Bytes of one answer, all pieces together. More is a server gone wild.
const MOST: usize = 32 << 20;

/// Decoder of one answer.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    known: &'a [&'a str],
    live: Live,
    text: String,
    /// Reasoning by the field it came in.
    reasoning: Vec<(&'static str, String)>,
    /// Reasoning that came as a part of the content: no field to go back in.
    inner: String,
    details: Vec<Value>,
    calls: Assembler,
    finish: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    sheltered: bool,
    size: usize,
}

impl<'a> Decoder<'a> {
    /// `known` are the names of the tools on offer.
    pub fn new(known: &'a [&'a str], live: Live) -> Self {
        Decoder {
            known,
            live,
            text: String::new(),
            reasoning: Vec::new(),
            inner: String::new(),
            details: Vec::new(),
            calls: Assembler::default(),
            finish: None,
            usage: None,
            model: None,
            sheltered: false,
            size: 0,
        }
    }

    /// Takes the data of one event.
    pub fn chunk(
        &mut self,
        data: &[u8],
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<(), Failure> {
        self.size += data.len();
        if self.size > MOST {
            return Err(Failure::shape("the answer is larger than 32 MiB"));
        }
        let data = data.trim_ascii();
        let value = match wirejson::parse(data) {
            Ok((value, sheltered)) => {
                self.sheltered |= sheltered;
                value
            }
            // Keep-alives come as data too; broken JSON is a lost piece of an answer.
            Err(_) if !data.starts_with(b"{") && !data.starts_with(b"[") => return Ok(()),
            Err(error) => {
                return Err(Failure::protocol(format!(
                    "a chunk of the stream is broken JSON: {error}"
                )));
            }
        };
        self.value(&value, "delta", on)
    }

    /// Takes a whole answer.
    pub fn whole(
        &mut self,
        value: &Value,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<(), Failure> {
        if let Some(failure) = errors::from_value(value) {
            return Err(failure);
        }
        if value
            .get("choices")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty)
        {
            let keys = value
                .as_object()
                .map(|m| m.keys().take(8).cloned().collect::<Vec<_>>().join(", "));
            let keys = keys.unwrap_or_else(|| "no object".to_owned());
            return Err(Failure::shape(format!(
                "the answer has no `choices`; it has: {keys}"
            )));
        }
        self.value(value, "message", on)
    }

    fn value(
        &mut self,
        value: &Value,
        part: &str,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<(), Failure> {
        if let Some(failure) = errors::from_value(value) {
            return Err(failure);
        }
        if let Some(model) = value.get("model").and_then(Value::as_str)
            && !model.is_empty()
        {
            self.model = Some(model.to_owned());
        }
        if let Some(usage) = value.get("usage").and_then(usage) {
            self.usage = Some(usage);
        }
        let Some(choices) = value.get("choices").and_then(Value::as_array) else {
            return Ok(());
        };
        for choice in choices {
            if choice.get("index").and_then(Value::as_u64).unwrap_or(0) != 0 {
                continue;
            }
            // Some send the whole message once more, or only so.
            let delta = choice
                .get(part)
                .or_else(|| choice.get("delta"))
                .or_else(|| choice.get("message"));
            if let Some(delta) = delta {
                self.delta(delta, on);
            }
            if let Some(usage) = choice.get("usage").and_then(usage) {
                self.usage = Some(usage);
            }
            // After the delta: the last piece often comes in the same chunk.
            if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str)
                && !reason.is_empty()
            {
                self.finish = Some(reason.to_owned());
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, on: &mut (dyn FnMut(ProviderEvent) + Send)) {
        for field in FIELDS {
            if let Some(text) = delta.get(field).and_then(Value::as_str)
                && !text.is_empty()
            {
                // Two fields with the same text are shown once.
                if self
                    .reasoning
                    .first()
                    .is_none_or(|(name, _)| *name == field)
                {
                    on(ProviderEvent::Thinking(text.to_owned()));
                }
                self.live.no_tags();
                match self.reasoning.iter_mut().find(|(name, _)| *name == field) {
                    Some((_, have)) => have.push_str(text),
                    None => self.reasoning.push((field, text.to_owned())),
                }
            }
        }
        if let Some(items) = delta.get(DETAILS).and_then(Value::as_array) {
            items
                .iter()
                .for_each(|item| merge_detail(&mut self.details, item));
        }
        match delta.get("content") {
            Some(Value::String(text)) => self.visible(text, on),
            Some(Value::Array(parts)) => {
                for part in parts {
                    let text = part.get("text").and_then(Value::as_str);
                    match (part.get("type").and_then(Value::as_str), text) {
                        (Some("thinking" | "reasoning"), _) => self.inner.push_str(&flat(part)),
                        (_, Some(text)) => self.visible(text, on),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str) {
            self.visible(text, on);
        }
        if let Some(pieces) = delta.get("tool_calls").and_then(Value::as_array) {
            pieces
                .iter()
                .for_each(|piece| self.calls.piece(piece, self.known));
        }
        // The form before tool calls: one call, without an id.
        if let Some(call @ Value::Object(_)) = delta.get("function_call") {
            self.calls
                .piece(&json!({"index": 0, "function": call}), self.known);
        }
    }

    fn visible(&mut self, text: &str, on: &mut (dyn FnMut(ProviderEvent) + Send)) {
        self.text.push_str(text);
        if self.sheltered {
            self.live.push(&wirejson::mend(text), on);
        } else {
            self.live.push(text, on);
        }
    }

    /// Whether the provider said why it stopped: the answer is whole.
    pub fn finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The end of the stream. `done` says that `[DONE]` was seen.
    pub fn end(
        mut self,
        done: bool,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<Draft, Failure> {
        if self.finish.is_none() {
            if !done {
                return Err(Failure::transport("the stream ended before the answer did"));
            }
            if self.calls.unfinished() {
                return Err(Failure::transport(
                    "the stream ended in the middle of a tool call",
                ));
            }
        }
        self.live.finish(on);
        let mend = |text: String| {
            if self.sheltered {
                wirejson::mend(&text)
            } else {
                text
            }
        };
        let mut pieces = Vec::new();
        let details = (!self.details.is_empty()).then_some(self.details);
        pieces.extend(thinking(self.reasoning, details, mend));
        if !self.inner.trim().is_empty() {
            pieces.push(Piece::Thinking {
                text: mend(self.inner),
                signature: None,
                extra: Map::new(),
            });
        }
        if !self.text.is_empty() {
            pieces.push(Piece::Text(mend(self.text)));
        }
        for mut call in self.calls.finish() {
            if let super::arguments::Raw::Text(text) = &mut call.arguments {
                *text = mend(std::mem::take(text));
            }
            pieces.push(Piece::Call(call));
        }
        Ok(Draft {
            pieces,
            stop: self.finish,
            usage: self.usage,
            model: self.model,
        })
    }
}

/// One block for all reasoning: its text, and each field to go back in. Null
/// stands for the block's text, so that it is kept once.
fn thinking(
    fields: Vec<(&'static str, String)>,
    details: Option<Vec<Value>>,
    mend: impl Fn(String) -> String,
) -> Option<Piece> {
    let mut extra = Map::new();
    let mut text: Option<String> = None;
    for (name, value) in fields {
        let value = mend(value);
        match &text {
            None => {
                text = Some(value);
                extra.insert(name.into(), Value::Null);
            }
            Some(first) if *first == value => {
                extra.insert(name.into(), Value::Null);
            }
            Some(_) => {
                extra.insert(name.into(), Value::String(value));
            }
        }
    }
    if let Some(details) = details {
        if text.is_none() {
            text = Some(
                details
                    .iter()
                    .filter_map(|d| d.get("text").and_then(Value::as_str))
                    .collect(),
            );
        }
        extra.insert(DETAILS.into(), Value::Array(details));
    }
    text.map(|text| Piece::Thinking {
        text,
        signature: None,
        extra,
    })
}

/// Joins a piece to the item with the same id or index and kind: text grows,
/// everything else is the newest.
fn merge_detail(items: &mut Vec<Value>, piece: &Value) {
    let Some(piece_map) = piece.as_object() else {
        return;
    };
    let differs = |a: &Value, b: &Value, key: &str| match (a.get(key), b.get(key)) {
        (Some(x), Some(y)) if !x.is_null() && !y.is_null() => x != y,
        _ => false,
    };
    let same = items.iter_mut().rev().find(|item| {
        let linked = item
            .get("index")
            .is_some_and(|i| Some(i) == piece.get("index"))
            || item
                .get("id")
                .is_some_and(|i| !i.is_null() && Some(i) == piece.get("id"));
        linked && !differs(item, piece, "type") && !differs(item, piece, "id")
    });
    let Some(Value::Object(map)) = same else {
        items.push(piece.clone());
        return;
    };
    for (key, value) in piece_map {
        match (map.get_mut(key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(have)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary" | "data") =>
            {
                have.push_str(more);
            }
            _ => {
                map.insert(key.clone(), value.clone());
            }
        }
    }
}

fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(flat).collect(),
        Value::Object(map) => ["text", "thinking", "reasoning"]
            .iter()
            .filter_map(|k| map.get(*k))
            .map(flat)
            .collect(),
        _ => String::new(),
    }
}

/// Usage; all zeros are what some servers send instead of nothing.
fn usage(value: &Value) -> Option<Usage> {
    let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    let usage = Usage {
        input_tokens: number("/prompt_tokens")
            .or_else(|| number("/input_tokens"))
            .unwrap_or(0),
        output_tokens: number("/completion_tokens")
            .or_else(|| number("/output_tokens"))
            .unwrap_or(0),
        cache_read_tokens: number("/prompt_tokens_details/cached_tokens")
            .or_else(|| number("/prompt_cache_hit_tokens"))
            .unwrap_or(0),
        cache_creation_tokens: number("/prompt_tokens_details/cache_creation_tokens").unwrap_or(0),
    };
    (usage.input_tokens > 0 || usage.output_tokens > 0).then_some(usage)
}

#[cfg(test)]
mod tests;
