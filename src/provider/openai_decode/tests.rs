use proptest::prelude::*;

use super::*;
use crate::provider::arguments::Raw;
use crate::provider::sse;

const KNOWN: [&str; 2] = ["Read", "Bash"];

/// The draft of a stream that arrives in these pieces, and the text shown.
fn stream(parts: &[&[u8]]) -> (Result<Draft, Failure>, String) {
    let mut shown = String::new();
    let mut on = |event| {
        if let ProviderEvent::Text(text) = event {
            shown.push_str(&text);
        }
    };
    let mut lines = sse::Decoder::default();
    let mut events = Vec::new();
    for part in parts {
        lines.feed(part, &mut events).unwrap();
    }
    lines.finish(&mut events);
    let mut decoder = Decoder::new(&KNOWN, Live::new());
    for event in events {
        if event.data == b"[DONE]" {
            return (decoder.end(true, &mut on), shown);
        }
        if let Err(failure) = decoder.chunk(&event.data, &mut on) {
            return (Err(failure), shown);
        }
    }
    (decoder.end(false, &mut on), shown)
}

fn draft(text: &str) -> Draft {
    let whole = stream(&[text.as_bytes()]).0.unwrap();
    // Every split, bytes not characters.
    for cut in 1..text.len() {
        let (a, b) = text.as_bytes().split_at(cut);
        assert_eq!(stream(&[a, b]).0.unwrap(), whole, "cut at {cut}");
    }
    whole
}

fn failure(text: &str) -> Failure {
    stream(&[text.as_bytes()]).0.unwrap_err()
}

fn call(id: &str, name: &str, arguments: &str) -> Piece {
    Piece::Call(crate::provider::calls::RawCall {
        id: Some(id.into()),
        name: name.into(),
        arguments: Raw::Text(arguments.into()),
    })
}

fn thinking_piece(text: &str, extra: Value) -> Piece {
    Piece::Thinking {
        text: text.into(),
        signature: None,
        extra: extra.as_object().cloned().unwrap_or_default(),
    }
}

#[test]
fn text_usage_and_model() {
    let got = draft(
        "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Gr\u{fc}\"},\"finish_reason\":null}]}\n\n\
         data: : keepalive\n\ndata: {\"choices\":null}\n\n\
         data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"\u{df}e \u{1f642}\"}],\"tool_calls\":[]}}]}\n\n\
         data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other choice\"}}]}\n\n\
         data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":20}}}\n\n\
         data: [DONE]\n\ndata: {\"late\":",
    );
    assert_eq!(
        got.pieces,
        [Piece::Text("Gr\u{fc}\u{df}e \u{1f642}".into())]
    );
    assert_eq!(
        (got.stop.as_deref(), got.model.as_deref()),
        (Some("stop"), Some("m"))
    );
    let usage = got.usage.unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens
        ),
        (50, 9, 20)
    );
}

#[test]
fn calls_in_pieces() {
    let got = draft(
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"Read\",\"arguments\":\"{\\\"p\\\":\"}}]}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"\u{e4}\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
    );
    assert_eq!(got.pieces, [call("a", "Read", "{\"p\":\"\u{e4}\"}")]);
}

#[test]
fn halves_of_characters_meet() {
    let got = draft(
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83d\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"\\ude42\"},\"finish_reason\":\"stop\"}]}\n\n",
    );
    assert_eq!(got.pieces, [Piece::Text("a\u{1f642}".into())]);
}

#[test]
fn reasoning_fields() {
    let got = draft(
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"First. \"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"Then.\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"<think>x\",\"reasoning_content\":null},\"finish_reason\":\"stop\"}]}\n\n",
    );
    assert_eq!(
        got.pieces[0],
        thinking_piece("First. Then.", json!({"reasoning_content": null}))
    );
    let got = draft(
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"Lo\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"Lo\",\"index\":0}]}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"reasoning\":\"ok\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"ok\",\"index\":0,\"signature\":\"s\"},{\"type\":\"reasoning.encrypted\",\"data\":\"q\",\"index\":0}]},\"finish_reason\":\"stop\"}]}\n\n",
    );
    assert_eq!(
        got.pieces[0],
        thinking_piece(
            "Look",
            json!({"reasoning": null, "reasoning_details": [
                {"type": "reasoning.text", "text": "Look", "index": 0, "signature": "s"},
                {"type": "reasoning.encrypted", "data": "q", "index": 0},
            ]})
        )
    );
    let got = draft(
        "data: {\"choices\":[{\"delta\":{\"reasoning_details\":[{\"text\":\"only\"}]},\"finish_reason\":\"stop\"}]}\n\n",
    );
    assert_eq!(
        got.pieces[0],
        thinking_piece("only", json!({"reasoning_details": [{"text": "only"}]}))
    );
    // The same under two names is kept once, and goes back under both.
    let got = draft(
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\",\"reasoning_content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n",
    );
    assert_eq!(
        got.pieces[0],
        thinking_piece("a", json!({"reasoning_content": null, "reasoning": null}))
    );
}

#[test]
fn ends() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    assert_eq!(failure(text).class, crate::provider::ErrorClass::Transport);
    // `[DONE]` without a reason is an end.
    assert_eq!(draft(&format!("{text}data: [DONE]\n\n")).stop, None);
    // A reason without `[DONE]` too, even without the last blank line.
    draft("data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}");
    // But not in the middle of a call.
    let half = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"Read\",\"arguments\":\"{\\\"p\"}}]}}]}\n\n";
    assert_eq!(
        failure(&format!("{half}data: [DONE]\n\n")).class,
        crate::provider::ErrorClass::Transport
    );
}

#[test]
fn errors_inside_a_stream_win() {
    let call = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"Bash\",\"arguments\":\"{}\"}}]}}]}\n\n";
    let error = "data: {\"error\":{\"code\":500,\"message\":\"Failed to parse input\",\"type\":\"server_error\"}}\n\ndata: [DONE]\n\n";
    assert_eq!(
        failure(&format!("{call}{error}")).class,
        crate::provider::ErrorClass::UpstreamError
    );
    assert_eq!(
        failure("data: {\"choices\":[{\"delta\":\n\n").class,
        crate::provider::ErrorClass::Protocol
    );
}

#[test]
fn whole_answers() {
    let read = |value: Value| {
        let mut decoder = Decoder::new(&KNOWN, Live::new());
        decoder
            .whole(&value, &mut |_| {})
            .and_then(|()| decoder.end(true, &mut |_| {}))
    };
    let got = read(json!({"model": "local", "choices": [{"finish_reason": "tool_calls", "index": 0, "message": {
        "role": "assistant", "content": "", "reasoning_content": "t",
        "tool_calls": [{"type": "function", "id": "a", "function": {"name": "Read", "arguments": "{\"p\":1}"}}]}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}}))
    .unwrap();
    assert_eq!(
        got.pieces,
        [
            thinking_piece("t", json!({"reasoning_content": null})),
            call("a", "Read", "{\"p\":1}")
        ]
    );
    let envelope = read(json!({"data": {"choices": []}, "success": true})).unwrap_err();
    assert!(
        envelope.message.contains("data, success"),
        "{}",
        envelope.message
    );
    assert_eq!(
        read(json!({"error": {"code": "1302", "message": "High concurrency"}}))
            .unwrap_err()
            .class,
        crate::provider::ErrorClass::RateLimit
    );
}

#[test]
fn zero_usage_is_none() {
    assert_eq!(
        usage(&json!({"prompt_tokens": 0, "completion_tokens": 0})),
        None
    );
    assert_eq!(usage(&json!(null)), None);
    assert_eq!(usage(&json!({"prompt_tokens": "x"})), None);
}

/// The streams that real servers sent, as they were captured.
#[test]
fn captured_streams() {
    for (text, calls, usage) in [
        (include_str!("captured/llama-tool.txt"), 1, true),
        (include_str!("captured/litellm-tool.txt"), 1, true),
        (include_str!("captured/llama-truncated.txt"), 1, false),
    ] {
        let got = stream(&[text.as_bytes()]).0.unwrap();
        let found = got
            .pieces
            .iter()
            .filter(|p| matches!(p, Piece::Call(_)))
            .count();
        assert_eq!((found, got.usage.is_some()), (calls, usage), "{text}");
    }
    let failed = stream(&[include_str!("captured/llama-parallel.txt").as_bytes()])
        .0
        .unwrap_err();
    assert_eq!(failed.class, crate::provider::ErrorClass::UpstreamError);
    assert!(failed.message.contains("peg-native"));
}

fn anything(depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        "[a-z{}]{0,6}".prop_map(Value::from),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let key = prop_oneof![
        Just("choices"),
        Just("delta"),
        Just("message"),
        Just("content"),
        Just("tool_calls"),
        Just("function"),
        Just("arguments"),
        Just("finish_reason"),
        Just("usage"),
        Just("index"),
        Just("reasoning_details"),
        Just("error"),
        Just("text"),
        Just("id"),
    ];
    let map = proptest::collection::vec((key, anything(depth - 1)), 0..4).prop_map(|pairs| {
        Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
    });
    let list = proptest::collection::vec(anything(depth - 1), 0..3).prop_map(Value::Array);
    prop_oneof![leaf, map, list].boxed()
}

proptest! {
    #[test]
    fn odd_chunks_never_panic(chunks in proptest::collection::vec(anything(5), 0..6)) {
        let mut decoder = Decoder::new(&KNOWN, Live::new());
        for chunk in &chunks {
            let text = chunk.to_string();
            let _ = decoder.chunk(text.as_bytes(), &mut |_| {});
            let _ = Decoder::new(&KNOWN, Live::new()).whole(chunk, &mut |_| {});
        }
        let _ = decoder.end(true, &mut |_| {});
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = stream(&[&bytes]);
    }
}
