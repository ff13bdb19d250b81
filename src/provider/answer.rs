//! Reading one answer to its end, whatever its shape.

use std::time::Duration;

use bytes::Bytes;

use super::draft::Draft;
use super::errors::{self, Failure};
use super::exchange::Exchange;
use super::think::Live;
use super::{ErrorClass, ProviderEvent, Wire, anthropic_decode, openai_decode, sse, wirejson};

/// After the answer is whole, the longest wait for its usage and end mark.
const AFTER_END: Duration = Duration::from_secs(5);

/// Largest whole (not streamed) answer.
const MOST_WHOLE: usize = 32 << 20;

/// Reads an answer. Its shape is told by its first byte: servers answer a
/// request for a stream with a whole body, and errors under any content type.
pub(crate) async fn read(
    exchange: &mut Exchange,
    decoder: Decoder<'_>,
    on: &mut (dyn FnMut(ProviderEvent) + Send),
) -> Result<Draft, Failure> {
    let mut start = Vec::new();
    let shape = loop {
        let Some(bytes) = exchange.next(None).await? else {
            break None;
        };
        start.extend_from_slice(&bytes);
        if let Some(byte) = first_byte(&start) {
            break Some(byte);
        }
        if start.len() > sse::MAX_EVENT {
            return Err(Failure::shape("the answer is nothing but white space"));
        }
    };
    match shape {
        Some(b'{' | b'[') => read_whole(exchange, start, decoder, on).await,
        Some(b'<') => {
            let page = errors::from_status(200, &start).message;
            Err(Failure::shape(format!(
                "the server answered with a page instead of an answer: {page}"
            )))
        }
        Some(_) => read_stream(exchange, start, decoder, on).await,
        None => Err(Failure::transport("the answer is empty")),
    }
}

/// The decoder of either wire.
pub(crate) enum Decoder<'a> {
    Openai(openai_decode::Decoder<'a>),
    Anthropic(anthropic_decode::Decoder),
}

impl<'a> Decoder<'a> {
    /// A decoder; `known` are the names of the tools on offer.
    pub fn new(wire: Wire, known: &'a [&'a str], live: Live) -> Self {
        match wire {
            Wire::Openai => Decoder::Openai(openai_decode::Decoder::new(known, live)),
            Wire::Anthropic => Decoder::Anthropic(anthropic_decode::Decoder::new(live)),
        }
    }

    fn chunk(
        &mut self,
        data: &[u8],
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<(), Failure> {
        match self {
            Decoder::Openai(decoder) => decoder.chunk(data, on),
            Decoder::Anthropic(decoder) => decoder.chunk(data, on),
        }
    }

    fn finished(&self) -> bool {
        match self {
            Decoder::Openai(decoder) => decoder.finished(),
            Decoder::Anthropic(decoder) => decoder.finished(),
        }
    }

    fn over(&self) -> bool {
        match self {
            Decoder::Openai(_) => false,
            Decoder::Anthropic(decoder) => decoder.over(),
        }
    }

    fn end(self, done: bool, on: &mut (dyn FnMut(ProviderEvent) + Send)) -> Result<Draft, Failure> {
        match self {
            Decoder::Openai(decoder) => decoder.end(done, on),
            Decoder::Anthropic(decoder) => decoder.end(on),
        }
    }
}

/// The first byte that says of what shape an answer is: servers send blank
/// lines for a sign of life before either shape.
fn first_byte(start: &[u8]) -> Option<u8> {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    start.iter().copied().find(|b| !b.is_ascii_whitespace())
}

async fn read_whole(
    exchange: &mut Exchange,
    mut body: Vec<u8>,
    mut decoder: Decoder<'_>,
    on: &mut (dyn FnMut(ProviderEvent) + Send),
) -> Result<Draft, Failure> {
    while let Some(bytes) = exchange.next(None).await? {
        body.extend_from_slice(&bytes);
        if body.len() > MOST_WHOLE {
            return Err(Failure::shape("the answer is larger than 32 MiB"));
        }
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&body);
    let (value, _) = wirejson::parse(body.trim_ascii()).map_err(|error| match error.is_eof() {
        true => Failure::transport("the answer ended before its JSON did"),
        false => Failure::protocol(format!("the answer is broken JSON: {error}")),
    })?;
    match &mut decoder {
        Decoder::Openai(decoder) => decoder.whole(&value, on)?,
        Decoder::Anthropic(decoder) => decoder.whole(&value, on)?,
    }
    decoder.end(true, on)
}

async fn read_stream(
    exchange: &mut Exchange,
    start: Vec<u8>,
    mut decoder: Decoder<'_>,
    on: &mut (dyn FnMut(ProviderEvent) + Send),
) -> Result<Draft, Failure> {
    let mut lines = sse::Decoder::default();
    let mut events = Vec::new();
    let mut next = Some(Bytes::from(start));
    loop {
        let at_end = next.is_none();
        match next {
            Some(bytes) => lines.feed(&bytes, &mut events).map_err(|sse::TooLong| {
                Failure::shape("one event of the stream is larger than 16 MiB")
            })?,
            None => lines.finish(&mut events),
        }
        for event in events.drain(..) {
            if event.data.trim_ascii() == b"[DONE]" {
                return decoder.end(true, on);
            }
            match take(&mut decoder, &event, on) {
                // What the end of the stream cut off is a cut, not bad JSON.
                Err(failure) if at_end && failure.class == ErrorClass::Protocol => {
                    return Err(Failure::transport(
                        "the stream ended in the middle of an event",
                    ));
                }
                other => other?,
            }
            if decoder.over() {
                return decoder.end(true, on);
            }
        }
        if at_end {
            return decoder.end(false, on);
        }
        let finished = decoder.finished();
        next = match exchange.next(finished.then_some(AFTER_END)).await {
            Ok(next) => next,
            // The answer is whole; only its end mark is missing.
            Err(_) if finished => return decoder.end(false, on),
            Err(failure) => return Err(failure),
        };
    }
}

fn take(
    decoder: &mut Decoder<'_>,
    event: &sse::Event,
    on: &mut (dyn FnMut(ProviderEvent) + Send),
) -> Result<(), Failure> {
    let data = event.data.trim_ascii();
    // The name alone makes it an error: llama.cpp sends the bare object here.
    if event.name == "error" {
        return Err(match wirejson::parse(data) {
            Ok((value, _)) => errors::from_error_event(&value),
            Err(_) if data.is_empty() => {
                Failure::new(ErrorClass::UpstreamError, "an error event without a word")
            }
            Err(_) => Failure::new(ErrorClass::UpstreamError, String::from_utf8_lossy(data)),
        });
    }
    // A comment that a gateway wrapped up as data.
    if data.starts_with(b":") || data.is_empty() {
        return Ok(());
    }
    decoder.chunk(data, on)
}
