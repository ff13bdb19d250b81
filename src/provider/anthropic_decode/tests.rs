use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provider::sse;

fn stream(parts: &[&[u8]]) -> Result<Draft, Failure> {
    let mut on = |_| {};
    let mut lines = sse::Decoder::default();
    let mut events = Vec::new();
    for part in parts {
        lines.feed(part, &mut events).unwrap();
    }
    lines.finish(&mut events);
    let mut decoder = Decoder::new(Live::new());
    for event in events {
        decoder.chunk(&event.data, &mut on)?;
        if decoder.over() {
            break;
        }
    }
    decoder.end(&mut on)
}

fn draft(events: &[Value]) -> Draft {
    let text = written(events);
    let whole = stream(&[text.as_bytes()]).unwrap();
    for cut in 1..text.len() {
        let (a, b) = text.as_bytes().split_at(cut);
        assert_eq!(stream(&[a, b]).unwrap(), whole, "cut at {cut}");
    }
    whole
}

fn written(events: &[Value]) -> String {
    events
        .iter()
        .map(|e| {
            format!(
                "event: {}\r\ndata: {e}\r\n\r\n",
                e["type"].as_str().unwrap_or("x")
            )
        })
        .collect()
}

fn start(usage: Value) -> Value {
    json!({"type": "message_start", "message": {"model": "m", "content": [], "usage": usage}})
}

fn block(index: u32, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u32, kind: &str, key: &str, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, key: text}})
}

fn stop(reason: &str, output: u64) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": output}}),
        json!({"type": "message_stop"}),
    ]
}

fn own(text: &str, signature: Option<&str>) -> Piece {
    let mut extra = Map::new();
    extra.insert(OWN.into(), Value::Null);
    Piece::Thinking {
        text: text.into(),
        signature: signature.map(str::to_owned),
        extra,
    }
}

fn call(id: &str, name: &str, arguments: Raw) -> Piece {
    Piece::Call(RawCall {
        id: Some(id.into()),
        name: name.into(),
        arguments,
    })
}

#[test]
fn thinking_signature_text_and_tool_use() {
    let mut events = vec![
        start(json!({"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 7})),
        json!({"type": "ping"}),
        block(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, "thinking_delta", "thinking", "Read "),
        delta(0, "thinking_delta", "thinking", "\u{e4} first."),
        delta(0, "signature_delta", "signature", "EqoB"),
        delta(0, "signature_delta", "signature", "Ckg="),
        block(1, json!({"type": "redacted_thinking", "data": "Zm9v"})),
        block(2, json!({"type": "text", "text": ""})),
        delta(2, "text_delta", "text", "Hi \u{1f642}"),
        delta(2, "input_json_delta", "partial_json", ""),
        block(3, json!({"type": "tool_use", "id": "t1", "name": "Read"})),
        delta(3, "input_json_delta", "partial_json", ""),
        delta(3, "input_json_delta", "partial_json", "{\"p\":"),
        delta(3, "input_json_delta", "partial_json", "1}"),
        block(4, json!({"type": "server_tool_use", "id": "x"})),
    ];
    events.extend(stop("tool_use", 20));
    events.push(json!({"type": "error", "error": {"type": "late"}}));
    let got = draft(&events);
    assert_eq!(
        got.pieces,
        [
            own("Read \u{e4} first.", Some("EqoBCkg=")),
            Piece::Redacted("Zm9v".into()),
            Piece::Text("Hi \u{1f642}".into()),
            call("t1", "Read", Raw::Text("{\"p\":1}".into())),
        ]
    );
    let usage = got.usage.unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens
        ),
        (107, 20, 7)
    );
    assert_eq!(
        (got.stop.as_deref(), got.model.as_deref()),
        (Some("tool_use"), Some("m"))
    );
}

#[test]
fn input_at_the_start_counts_only_without_pieces() {
    let whole = block(
        0,
        json!({"type": "tool_use", "id": "t", "name": "Read", "input": {"p": 1}}),
    );
    let mut events = vec![whole.clone()];
    events.extend(stop("tool_use", 1));
    let object = json!({"p": 1}).as_object().cloned().unwrap();
    assert_eq!(
        draft(&events).pieces,
        [call("t", "Read", Raw::Object(object))]
    );
    let mut events = vec![
        whole,
        delta(0, "input_json_delta", "partial_json", "{\"p\":2}"),
    ];
    events.extend(stop("tool_use", 1));
    assert_eq!(
        draft(&events).pieces,
        [call("t", "Read", Raw::Text("{\"p\":2}".into()))]
    );
}

#[test]
fn usage_at_the_end_is_the_better_one() {
    let events = [
        start(json!({"input_tokens": 0, "output_tokens": 0})),
        block(0, json!({"type": "text", "text": "x"})),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 1, "output_tokens": 5, "cache_read_input_tokens": 24}}),
    ];
    let usage = draft(&events).usage.unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens
        ),
        (25, 5, 24)
    );
    let zeros = [
        start(json!({"input_tokens": 0, "output_tokens": 0})),
        block(0, json!({"type": "text", "text": "x"})),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(draft(&zeros).usage, None);
}

#[test]
fn broken_off_and_failing_streams() {
    let text = block(0, json!({"type": "text", "text": "Half an ans"}));
    let fail = |events: &[Value]| stream(&[written(events).as_bytes()]).unwrap_err().class;
    assert_eq!(fail(std::slice::from_ref(&text)), ErrorClass::Transport);
    let overloaded =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(fail(&[text.clone(), overloaded]), ErrorClass::Overloaded);
    let denied =
        json!({"type": "error", "error": {"type": "authentication_error", "message": "x"}});
    assert_eq!(fail(&[text, denied]), ErrorClass::Auth);
}

#[test]
fn tokens_without_content_are_a_failure_and_few_are_silence() {
    let empty = |output| {
        let mut events = vec![
            start(json!({"input_tokens": 1})),
            block(0, json!({"type": "text", "text": ""})),
        ];
        events.extend(stop("end_turn", output));
        stream(&[written(&events).as_bytes()])
    };
    assert_eq!(empty(57).unwrap_err().class, ErrorClass::UpstreamError);
    assert!(empty(3).is_ok());
}

#[test]
fn whole_answers() {
    let read = |value: Value| {
        let mut decoder = Decoder::new(Live::new());
        decoder
            .whole(&value, &mut |_| {})
            .and_then(|()| decoder.end(&mut |_| {}))
    };
    let got = read(json!({"type": "message", "role": "assistant", "model": "local", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "thinking": "", "signature": "s"}, {"type": "tool_use", "id": "a", "name": "Read", "input": {"p": 1}}],
        "usage": {"cache_read_input_tokens": 101, "input_tokens": 1, "output_tokens": 17}}))
    .unwrap();
    assert_eq!(got.pieces.len(), 2);
    assert_eq!(got.usage.unwrap().input_tokens, 102);
    assert!(
        read(json!({"ok": true}))
            .unwrap_err()
            .message
            .contains("it has: ok")
    );
}

#[test]
fn captured_streams() {
    for (text, calls, thoughts) in [
        (include_str!("captured/llama-tool.txt"), 1, 0),
        (include_str!("captured/litellm-tool.txt"), 1, 0),
        (include_str!("captured/llama-thinking.txt"), 0, 1),
    ] {
        let got = stream(&[text.as_bytes()]).unwrap();
        let count = |f: fn(&&Piece) -> bool| got.pieces.iter().filter(f).count();
        assert_eq!(count(|p| matches!(p, Piece::Call(_))), calls, "{text}");
        assert_eq!(
            count(|p| matches!(p, Piece::Thinking { .. })),
            thoughts,
            "{text}"
        );
        assert!(got.usage.is_some());
    }
}

proptest! {
    #[test]
    fn odd_events_never_panic(
        kinds in proptest::collection::vec((0usize..7, 0u32..3, 0usize..6, "[a-z{\":]{0,6}"), 0..12)
    ) {
        let mut decoder = Decoder::new(Live::new());
        for (kind, index, inner, text) in kinds {
            let names = ["text", "thinking", "redacted_thinking", "tool_use", "text_delta", "input_json_delta"];
            let event = match kind {
                0 => start(json!(text)),
                1 => block(index, json!({"type": names[inner], "text": text, "input": text})),
                2 => delta(index, names[inner], "text", &text),
                3 => json!({"type": "message_delta", "delta": text, "usage": text}),
                4 => json!({"type": "content_block_delta", "index": text, "delta": {"type": names[inner], "partial_json": index}}),
                5 => json!({"type": text}),
                _ => json!(text),
            };
            let _ = decoder.chunk(event.to_string().as_bytes(), &mut |_| {});
        }
        let _ = decoder.end(&mut |_| {});
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = stream(&[&bytes]);
    }
}
