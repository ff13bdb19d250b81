use serde_json::json;

use super::*;
use crate::provider::arguments::Raw;

fn tools() -> Vec<ToolSpec> {
    vec![ToolSpec {
        name: "Read",
        description: String::new(),
        schema: json!({"type": "object", "properties": {"file_path": {"type": "string"}}}),
    }]
}

fn make(pieces: Vec<Piece>, stop: Option<&str>) -> Result<Made, Failure> {
    make_after(pieces, stop, &[], Wire::Openai)
}

fn make_after(
    pieces: Vec<Piece>,
    stop: Option<&str>,
    messages: &[Message],
    wire: Wire,
) -> Result<Made, Failure> {
    let draft = Draft {
        pieces,
        stop: stop.map(str::to_owned),
        usage: None,
        model: Some("m".into()),
    };
    assemble(
        draft,
        Ground {
            wire,
            tools: &tools(),
            messages,
        },
    )
}

fn text(text: &str) -> Piece {
    Piece::Text(text.into())
}

fn call(id: Option<&str>, name: &str, arguments: &str) -> Piece {
    Piece::Call(RawCall {
        id: id.map(str::to_owned),
        name: name.into(),
        arguments: Raw::Text(arguments.into()),
    })
}

fn uses(made: &Made) -> Vec<&ToolUse> {
    made.reply.message.tool_uses().collect()
}

#[test]
fn calls_decide_not_the_stop_word() {
    for stop in [
        Some("stop"),
        Some("tool_calls"),
        Some("end_turn"),
        Some("UNKNOWN"),
        None,
    ] {
        let made = make(vec![call(Some("a"), "Read", "{}")], stop).unwrap();
        assert_eq!(made.reply.stop, Stop::ToolUse);
        assert!(made.native);
    }
    let made = make(vec![text("hi")], Some("tool_calls")).unwrap();
    assert_eq!(made.reply.stop, Stop::EndTurn);
}

#[test]
fn stop_words_of_every_server() {
    assert_eq!(stop_of(Some("length")), Ok(Stop::MaxTokens));
    assert_eq!(stop_of(Some("max_tokens")), Ok(Stop::MaxTokens));
    assert_eq!(stop_of(Some("sensitive")), Ok(Stop::ContentFilter));
    assert_eq!(stop_of(Some("weird")), Ok(Stop::Other("weird".into())));
    assert_eq!(stop_of(None), Ok(Stop::Other("unknown".into())));
    let failure = make(vec![text("half")], Some("insufficient_system_resource")).unwrap_err();
    assert_eq!(failure.class, ErrorClass::UpstreamError);
}

#[test]
fn announced_calls_that_never_came() {
    assert_eq!(
        make(vec![], Some("tool_calls")).unwrap_err().class,
        ErrorClass::EmptyResponse
    );
    assert_eq!(
        make(vec![text(" ")], Some("tool_calls")).unwrap_err().class,
        ErrorClass::EmptyResponse
    );
    // An empty answer that announces nothing is the run's matter.
    let made = make(vec![text("")], Some("stop")).unwrap();
    assert!(made.reply.message.blocks.is_empty());
}

#[test]
fn the_output_bound_cuts_the_last_call() {
    for arguments in ["{\"file_path\":\"t", "{\"file_path\":\"t\"}", "{}"] {
        let pieces = vec![
            call(Some("a"), "Read", "{\"file_path\":\"x\"}"),
            call(Some("b"), "Read", arguments),
        ];
        let made = make(pieces, Some("length")).unwrap();
        let calls = uses(&made);
        assert_eq!(calls[0].malformed, None);
        assert_eq!(calls[1].malformed.as_deref(), Some(CUT_OFF));
        assert!(calls[1].input.is_empty());
        assert_eq!(made.reply.stop, Stop::MaxTokens);
    }
}

#[test]
fn ids_are_kept_when_usable_and_new() {
    let first = make(
        vec![
            call(Some("call_1"), "Read", "{}"),
            call(Some("call_1"), "Read", "{}"),
        ],
        None,
    )
    .unwrap();
    let ids: Vec<_> = uses(&first).iter().map(|c| c.id.clone()).collect();
    assert_eq!(ids[0], "call_1");
    assert_ne!(ids[1], "call_1");
    let again = make_after(
        vec![call(Some("call_1"), "Read", "{}"), call(None, "Read", "{}")],
        None,
        &[first.reply.message],
        Wire::Openai,
    )
    .unwrap();
    for call in uses(&again) {
        assert!(!ids.contains(&call.id) && !call.id.is_empty());
    }
    let odd = "functions.Read:0";
    let made = make(vec![call(Some(odd), "Read", "{}")], None).unwrap();
    assert_eq!(uses(&made)[0].id, odd);
    let made = make_after(
        vec![call(Some(odd), "Read", "{}")],
        None,
        &[],
        Wire::Anthropic,
    )
    .unwrap();
    assert_ne!(uses(&made)[0].id, odd);
}

#[test]
fn reasoning_comes_first_and_out_of_the_text() {
    let made = make(
        vec![
            text("<think>Short.</think>The answer."),
            Piece::Redacted("x".into()),
        ],
        Some("stop"),
    )
    .unwrap();
    assert_eq!(
        made.reply.message.blocks,
        [
            Block::Thinking {
                text: "Short.".into(),
                signature: None,
                extra: Map::new()
            },
            Block::RedactedThinking { data: "x".into() },
            Block::Text {
                text: "The answer.".into()
            },
        ]
    );
    // With a field of its own for reasoning, tags are text.
    let field = Piece::Thinking {
        text: "t".into(),
        signature: None,
        extra: Map::new(),
    };
    let made = make(vec![field, text("<think>x</think>y")], Some("stop")).unwrap();
    assert_eq!(made.reply.message.text(), "<think>x</think>y");
}

#[test]
fn a_call_in_reasoning_does_not_run() {
    let thought = "<think>or <tool_call>{\"name\":\"Read\",\"arguments\":{}}</tool_call></think>";
    let made = make(
        vec![text(thought), call(Some("r"), "Read", "{}")],
        Some("tool_calls"),
    )
    .unwrap();
    assert_eq!(uses(&made).len(), 1);
    let made = make(vec![text(thought)], Some("stop")).unwrap();
    assert_eq!(uses(&made).len(), 0);
}

#[test]
fn text_calls_are_recovered_unless_a_native_one_came() {
    let markup =
        "Look.\n<tool_call>{\"name\":\"Read\",\"arguments\":{\"file_path\":\"a\"}}</tool_call>";
    let made = make(vec![text(markup)], Some("stop")).unwrap();
    assert_eq!(uses(&made).len(), 1);
    assert_eq!(made.reply.message.text(), "Look.");
    assert_eq!(made.reply.flags, [RECOVERED]);
    assert_eq!(made.reply.stop, Stop::ToolUse);
    assert!(!made.native && !made.bare);
    let made = make(
        vec![text(markup), call(Some("n"), "Read", "{}")],
        Some("stop"),
    )
    .unwrap();
    assert_eq!(uses(&made).len(), 1);
    assert_eq!(made.reply.message.text(), "Look.");
    assert!(made.reply.flags.is_empty());
    let bare = "{\"name\":\"Read\",\"arguments\":{}}";
    assert!(make(vec![text(bare)], Some("stop")).unwrap().bare);
    assert!(make(vec![text(&bare[..20])], Some("length")).unwrap().begun);
}

#[test]
fn names_and_arguments_are_judged() {
    let made = make(
        vec![
            call(Some("a"), "Read<|channel|>commentary", "{}"),
            call(Some("b"), "", "{}"),
            call(Some("c"), " read ", "{\"pattern\":\"\\d\"}"),
            call(Some("d"), "Read", "[1]"),
        ],
        None,
    )
    .unwrap();
    let calls = uses(&made);
    assert_eq!(
        (calls[0].name.as_str(), &calls[0].malformed),
        ("Read", &None)
    );
    assert!(calls[1].malformed.is_some());
    assert_eq!(calls[2].name, "read");
    assert!(calls[3].malformed.is_some() && calls[3].input.is_empty());
    assert_eq!(made.reply.flags, [REPAIRED]);
}
