use serde_json::json;

use super::*;
use crate::provider::{Message, Role, ToolMode, ToolResult, ToolUse};

fn style() -> Style {
    Style {
        model: "m".into(),
        stream: true,
        bound: "max_tokens",
        stream_usage: true,
        images: false,
        resend: Resend::Auto,
    }
}

fn tool() -> ToolSpec {
    ToolSpec {
        name: "Read",
        description: "reads".into(),
        schema: json!({"type": "object"}),
    }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Block {
    Block::ToolUse(ToolUse {
        id: id.into(),
        name: name.into(),
        input: input.as_object().cloned().unwrap_or_default(),
        malformed: None,
    })
}

fn result(id: &str, content: &str, is_error: bool) -> Block {
    Block::ToolResult(ToolResult {
        tool_use_id: id.into(),
        content: content.into(),
        is_error,
        image: Some(Image {
            media_type: "image/png".into(),
            data: "AAAA".into(),
        }),
    })
}

fn thinking(extra: Value) -> Block {
    Block::Thinking {
        text: "First. ".into(),
        signature: None,
        extra: extra.as_object().cloned().unwrap_or_default(),
    }
}

fn said(blocks: Vec<Block>, by: Option<&str>) -> Message {
    Message {
        role: Role::Assistant,
        blocks,
        answered_by: by.map(str::to_owned),
    }
}

fn encode(messages: &[Message], style: &Style) -> Value {
    let request = TurnRequest {
        system: "sys",
        messages,
        tools: &[tool()],
        max_output_tokens: 9,
        tool_mode: ToolMode::Native,
    };
    Value::Object(body(&request, 9, style))
}

#[test]
fn a_whole_body() {
    let messages = [
        Message::user("task"),
        said(
            vec![
                Block::Text {
                    text: "look".into(),
                },
                call("c1", " read ", json!({"p": 1})),
                call("c2", "x/y", json!({})),
            ],
            None,
        ),
        Message {
            role: Role::User,
            blocks: vec![
                result("c2", "no such tool", true),
                result("c1", "alpha", false),
                Block::Text {
                    text: "3 turns left".into(),
                },
            ],
            answered_by: None,
        },
    ];
    assert_eq!(
        encode(&messages, &style()),
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "sys"},
                {"role": "user", "content": "task"},
                {"role": "assistant", "content": "look", "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"p\":1}"}},
                    {"id": "c2", "type": "function", "function": {"name": "x_y", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "alpha"},
                {"role": "tool", "tool_call_id": "c2", "content": "ERROR: no such tool"},
                {"role": "user", "content": "3 turns left"},
            ],
            "tools": [{"type": "function", "function": {"name": "Read", "description": "reads", "parameters": {"type": "object"}}}],
            "max_tokens": 9,
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[test]
fn images_only_where_the_model_takes_them() {
    let messages = [
        Message::user("task"),
        said(vec![call("c1", "Read", json!({}))], None),
        Message {
            role: Role::User,
            blocks: vec![result("c1", "a picture", false)],
            answered_by: None,
        },
    ];
    let plain = encode(&messages, &style());
    assert_eq!(plain["messages"].as_array().unwrap().len(), 4);
    assert_eq!(plain["messages"][2]["content"], Value::Null);
    let seen = encode(
        &messages,
        &Style {
            images: true,
            ..style()
        },
    );
    assert_eq!(seen["messages"][4]["role"], "user");
    assert_eq!(
        seen["messages"][4]["content"][1]["image_url"]["url"],
        "data:image/png;base64,AAAA"
    );
}

#[test]
fn reasoning_goes_back_under_its_name_and_byte_for_byte() {
    let details = json!([{"type": "reasoning.text", "text": "First. ", "index": 0}]);
    let turn = |by| {
        said(
            vec![
                thinking(json!({"reasoning": null, "reasoning_details": details})),
                thinking(json!({})),
                call("c1", "Read", json!({})),
            ],
            by,
        )
    };
    let body = encode(&[Message::user("t"), turn(Some("m"))], &style());
    assert_eq!(body["messages"][2]["reasoning"], "First. ");
    assert_eq!(body["messages"][2]["reasoning_details"], details);
    for by in [None, Some("other")] {
        let body = encode(&[Message::user("t"), turn(by)], &style());
        assert!(body["messages"][2].get("reasoning").is_none());
    }
    let never = Style {
        resend: Resend::Never,
        ..style()
    };
    let body = encode(&[Message::user("t"), turn(Some("m"))], &never);
    assert!(body["messages"][2].get("reasoning").is_none());
}

#[test]
fn deepseek_gets_the_empty_field_once_there_was_a_full_one() {
    let deepseek = Style {
        model: "deepseek-v4-flash".into(),
        ..style()
    };
    let full = said(
        vec![
            thinking(json!({"reasoning_content": null})),
            call("c1", "Read", json!({})),
        ],
        Some("deepseek-v4-flash"),
    );
    let bare = said(
        vec![call("c2", "Read", json!({}))],
        Some("deepseek-v4-flash"),
    );
    let body = encode(
        &[Message::user("t"), full, Message::user("x"), bare.clone()],
        &deepseek,
    );
    assert_eq!(body["messages"][2]["reasoning_content"], "First. ");
    assert_eq!(body["messages"][5]["reasoning_content"], "");
    let body = encode(&[Message::user("t"), bare], &deepseek);
    assert!(body["messages"][2].get("reasoning_content").is_none());
}

#[test]
fn nothing_empty_goes_out() {
    let messages = [
        Message::user("t"),
        said(
            vec![thinking(json!({})), Block::Text { text: " ".into() }],
            None,
        ),
        Message::user("go on"),
    ];
    let request = TurnRequest {
        system: " ",
        messages: &messages,
        tools: &[],
        max_output_tokens: 9,
        tool_mode: ToolMode::Native,
    };
    let body = Value::Object(body(
        &request,
        9,
        &Style {
            stream: false,
            ..style()
        },
    ));
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": "t\n\ngo on"}])
    );
    assert!(body.get("tools").is_none() && body.get("stream_options").is_none());
    assert_eq!(body["stream"], false);
}
