//! An answer on the Anthropic wire, streamed or whole.

use serde_json::{Map, Value};

use super::anthropic_encode::OWN;
use super::arguments::Raw;
use super::calls::{RawCall, usable_id};
use super::draft::{Draft, Piece};
use super::errors::{self, Failure};
use super::think::Live;
use super::{ErrorClass, ProviderEvent, Usage, wirejson};

const MOST: usize = 32 << 20;

/// A content block while it streams.
#[derive(Debug)]
enum Part {
    Text(String),
    Thinking {
        text: String,
        signature: Option<String>,
    },
    Redacted(String),
    Call {
        id: Option<String>,
        name: String,
        input: Option<Map<String, Value>>,
        text: String,
    },
    /// A kind that means nothing to us.
    Other,
}

/// Decoder of one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    live: Live,
    parts: Vec<(i64, Part)>,
    stop: Option<String>,
    over: bool,
    usage: Counts,
    model: Option<String>,
    sheltered: bool,
    size: usize,
}

/// Usage as it comes in pieces, each the newest of its kind.
#[derive(Debug, Default)]
struct Counts {
    input: u64,
    output: u64,
    read: u64,
    created: u64,
}

impl Counts {
    fn take(&mut self, value: Option<&Value>) {
        let Some(value) = value else { return };
        for (key, slot) in [
            ("input_tokens", &mut self.input),
            ("output_tokens", &mut self.output),
            ("cache_read_input_tokens", &mut self.read),
            ("cache_creation_input_tokens", &mut self.created),
        ] {
            // A proxy may begin with zeros and know better at the end.
            if let Some(number) = value.get(key).and_then(Value::as_u64).filter(|n| *n > 0) {
                *slot = number;
            }
        }
    }

    fn usage(&self) -> Option<Usage> {
        let input = self.input + self.read + self.created;
        (input > 0 || self.output > 0).then_some(Usage {
            input_tokens: input,
            output_tokens: self.output,
            cache_read_tokens: self.read,
            cache_creation_tokens: self.created,
        })
    }
}

impl Decoder {
    pub fn new(live: Live) -> Self {
        Decoder {
            live,
            parts: Vec::new(),
            stop: None,
            over: false,
            usage: Counts::default(),
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
            Err(_) if !data.starts_with(b"{") && !data.starts_with(b"[") => return Ok(()),
            Err(error) => {
                return Err(Failure::protocol(format!(
                    "an event of the stream is broken JSON: {error}"
                )));
            }
        };
        if let Some(failure) = errors::from_value(&value) {
            return Err(failure);
        }
        let index = value.get("index").and_then(Value::as_i64).unwrap_or(0);
        match value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "message_start" => {
                let message = value.get("message");
                self.model_of(message);
                self.usage.take(message.and_then(|m| m.get("usage")));
            }
            "content_block_start" => {
                let block = value.get("content_block").cloned().unwrap_or_default();
                let part = self.start(&block, on);
                self.parts.push((index, part));
            }
            "content_block_delta" => {
                if let Some(delta) = value.get("delta") {
                    self.delta(index, delta, on);
                }
            }
            "message_delta" => {
                if let Some(stop) = value.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    self.stop = Some(stop.to_owned());
                }
                self.usage.take(value.get("usage"));
            }
            "message_stop" => self.over = true,
            _ => {}
        }
        Ok(())
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
        let Some(blocks) = value.get("content").and_then(Value::as_array) else {
            let keys = value
                .as_object()
                .map(|m| m.keys().take(8).cloned().collect::<Vec<_>>().join(", "));
            let keys = keys.unwrap_or_else(|| "no object".to_owned());
            return Err(Failure::shape(format!(
                "the answer has no `content`; it has: {keys}"
            )));
        };
        self.model_of(Some(value));
        self.usage.take(value.get("usage"));
        for (at, block) in blocks.iter().enumerate() {
            let part = self.start(block, on);
            self.parts.push((at as i64, part));
        }
        self.stop = value
            .get("stop_reason")
            .and_then(Value::as_str)
            .map(str::to_owned);
        self.over = true;
        Ok(())
    }

    fn model_of(&mut self, value: Option<&Value>) {
        if let Some(model) = value.and_then(|v| v.get("model")).and_then(Value::as_str)
            && !model.is_empty()
        {
            self.model = Some(model.to_owned());
        }
    }

    fn start(&mut self, block: &Value, on: &mut (dyn FnMut(ProviderEvent) + Send)) -> Part {
        let text = |key: &str| {
            block
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        match block
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "text" => {
                let words = text("text");
                self.show(&words, on);
                Part::Text(words)
            }
            "thinking" => {
                let thought = text("thinking");
                self.think(&thought, on);
                Part::Thinking {
                    text: thought,
                    signature: Some(text("signature")).filter(|s| !s.is_empty()),
                }
            }
            "redacted_thinking" => Part::Redacted(text("data")),
            "tool_use" => Part::Call {
                id: block.get("id").and_then(usable_id),
                name: text("name"),
                input: block
                    .get("input")
                    .and_then(Value::as_object)
                    .filter(|m| !m.is_empty())
                    .cloned(),
                text: String::new(),
            },
            _ => Part::Other,
        }
    }

    fn delta(&mut self, index: i64, delta: &Value, on: &mut (dyn FnMut(ProviderEvent) + Send)) {
        let text = |key: &str| {
            delta
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let kind = delta
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let at = self.parts.iter().rposition(|(i, _)| *i == index);
        // A proxy may leave the start of a text out; of a call it cannot.
        let at = match (at, kind) {
            (Some(at), _) => at,
            (None, "text_delta") => {
                self.parts.push((index, Part::Text(String::new())));
                self.parts.len() - 1
            }
            (None, _) => return,
        };
        // A delta of another kind than its block is noise.
        match (&mut self.parts[at].1, kind) {
            (Part::Text(have), "text_delta") => {
                let words = text("text");
                have.push_str(&words);
                self.show(&words, on);
            }
            (Part::Thinking { text: have, .. }, "thinking_delta") => {
                let thought = text("thinking");
                have.push_str(&thought);
                self.think(&thought, on);
            }
            (Part::Thinking { signature, .. }, "signature_delta") => {
                signature
                    .get_or_insert_default()
                    .push_str(&text("signature"));
            }
            (Part::Call { text: have, .. }, "input_json_delta") => {
                have.push_str(&text("partial_json"))
            }
            _ => {}
        }
    }

    fn show(&mut self, words: &str, on: &mut (dyn FnMut(ProviderEvent) + Send)) {
        if self.sheltered {
            self.live.push(&wirejson::mend(words), on);
        } else {
            self.live.push(words, on);
        }
    }

    fn think(&mut self, thought: &str, on: &mut (dyn FnMut(ProviderEvent) + Send)) {
        if !thought.is_empty() {
            self.live.no_tags();
            on(ProviderEvent::Thinking(thought.to_owned()));
        }
    }

    /// Whether `message_stop` was seen: nothing more comes.
    pub fn over(&self) -> bool {
        self.over
    }

    /// Whether the provider said why it stopped: the answer is whole.
    pub fn finished(&self) -> bool {
        self.stop.is_some()
    }

    /// The end of the stream.
    pub fn end(mut self, on: &mut (dyn FnMut(ProviderEvent) + Send)) -> Result<Draft, Failure> {
        if self.stop.is_none() && !self.over {
            return Err(Failure::transport("the stream ended before the answer did"));
        }
        self.live.finish(on);
        let sheltered = self.sheltered;
        let mend = |text: String| {
            if sheltered {
                wirejson::mend(&text)
            } else {
                text
            }
        };
        self.parts.sort_by_key(|(index, _)| *index);
        let mut pieces = Vec::new();
        let mut spoke = false;
        for (_, part) in self.parts {
            match part {
                Part::Text(text) => {
                    spoke |= !text.trim().is_empty();
                    pieces.push(Piece::Text(mend(text)));
                }
                Part::Thinking { text, signature } => {
                    spoke = true;
                    let mut extra = Map::new();
                    extra.insert(OWN.into(), Value::Null);
                    pieces.push(Piece::Thinking {
                        text: mend(text),
                        signature,
                        extra,
                    });
                }
                Part::Redacted(data) => pieces.push(Piece::Redacted(data)),
                Part::Call {
                    id,
                    name,
                    input,
                    text,
                } => {
                    spoke = true;
                    // The pieces win over what the start of the block held.
                    let arguments = match input {
                        Some(input) if text.trim().is_empty() => Raw::Object(input),
                        _ => Raw::Text(mend(text)),
                    };
                    pieces.push(Piece::Call(RawCall {
                        id,
                        name,
                        arguments,
                    }));
                }
                Part::Other => {}
            }
        }
        // Tokens were made and paid for, and a proxy lost them on the way. A model
        // that really has nothing to say needs two or three.
        if !spoke && self.usage.output >= 10 && self.stop.as_deref() == Some("end_turn") {
            let text = format!(
                "the answer is empty although {} tokens were made",
                self.usage.output
            );
            return Err(Failure::new(ErrorClass::UpstreamError, text));
        }
        Ok(Draft {
            pieces,
            stop: self.stop,
            usage: self.usage.usage(),
            model: self.model,
        })
    }
}

#[cfg(test)]
mod tests;
