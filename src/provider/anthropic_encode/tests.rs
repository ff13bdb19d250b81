use serde_json::json;

use super::*;
use crate::provider::resend::Resend;
use crate::provider::{Image, Message, Role, ToolMode, ToolResult, ToolSpec, ToolUse};

fn style(model: &str, images: bool) -> Style {
    Style {
        model: model.into(),
        stream: true,
        bound: "max_completion_tokens",
        stream_usage: true,
        images,
        resend: Resend::Auto,
    }
}

fn encode(messages: &[Message], style: &Style) -> Value {
    let tools = [ToolSpec {
        name: "Read",
        description: "reads".into(),
        schema: json!({"type": "object"}),
    }];
    let request = TurnRequest {
        system: "sys",
        messages,
        tools: &tools,
        max_output_tokens: 9,
        tool_mode: ToolMode::Native,
    };
    Value::Object(body(&request, 9, style))
}

fn call(id: &str) -> Block {
    Block::ToolUse(ToolUse {
        id: id.into(),
        name: "Read".into(),
        input: json!({"p": 1}).as_object().cloned().unwrap(),
        malformed: None,
    })
}

fn thinking(text: &str, signature: Option<&str>, own: bool) -> Block {
    let extra = if own {
        json!({"thinking": null})
    } else {
        json!({})
    };
    Block::Thinking {
        text: text.into(),
        signature: signature.map(str::to_owned),
        extra: extra.as_object().cloned().unwrap(),
    }
}

fn message(role: Role, blocks: Vec<Block>) -> Message {
    Message {
        role,
        blocks,
        answered_by: None,
    }
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

#[test]
fn a_whole_body() {
    let result = |id: &str, content: &str, is_error| {
        Block::ToolResult(ToolResult {
            tool_use_id: id.into(),
            content: content.into(),
            is_error,
            image: None,
        })
    };
    let messages = [
        Message::user("task"),
        // Reasoning last in the block list still goes first.
        message(
            Role::Assistant,
            vec![
                text("look"),
                call("t1"),
                call("t2"),
                thinking("Read first.", Some("sig=="), true),
                Block::RedactedThinking {
                    data: "Zm9v".into(),
                },
                text(""),
            ],
        ),
        message(
            Role::User,
            vec![
                text("hurry"),
                result("t2", "b", false),
                result("t1", "nope", true),
            ],
        ),
        Message::user("more"),
    ];
    assert_eq!(
        encode(&messages, &style("m", false)),
        json!({
            "model": "m",
            "max_tokens": 9,
            "system": "sys",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "task"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Read first.", "signature": "sig=="},
                    {"type": "redacted_thinking", "data": "Zm9v"},
                    {"type": "text", "text": "look"},
                    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"p": 1}},
                    {"type": "tool_use", "id": "t2", "name": "Read", "input": {"p": 1}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "nope", "is_error": true},
                    {"type": "tool_result", "tool_use_id": "t2", "content": "b"},
                    {"type": "text", "text": "hurry"},
                    {"type": "text", "text": "more"},
                ]},
            ],
            "tools": [{"name": "Read", "description": "reads", "input_schema": {"type": "object"}}],
            "stream": true,
        })
    );
}

#[test]
fn reasoning_that_was_text_is_no_block() {
    let messages = [
        Message::user("t"),
        message(
            Role::Assistant,
            vec![thinking("inline", None, false), text("a")],
        ),
        Message::user("u"),
    ];
    let body = encode(&messages, &style("m", false));
    assert_eq!(
        body["messages"][1]["content"],
        json!([{"type": "text", "text": "a"}])
    );
}

#[test]
fn an_empty_block_of_the_wire_goes_back() {
    let messages = [
        Message::user("t"),
        message(Role::Assistant, vec![thinking("", None, true), call("t1")]),
        message(Role::Assistant, vec![call("t2")]),
    ];
    let body = encode(&messages, &style("deepseek-v4", false));
    let empty = json!({"type": "thinking", "thinking": ""});
    assert_eq!(body["messages"][1]["content"][0], empty);
    assert_eq!(body["messages"][3]["content"][0], empty);
    let body = encode(&messages, &style("claude-x", false));
    assert_eq!(body["messages"][3]["content"][0]["type"], "tool_use");
}

#[test]
fn images_only_where_the_model_takes_them() {
    let messages = [
        Message::user("t"),
        message(Role::Assistant, vec![call("t1")]),
        message(
            Role::User,
            vec![Block::ToolResult(ToolResult {
                tool_use_id: "t1".into(),
                content: "a picture".into(),
                is_error: false,
                image: Some(Image {
                    media_type: "image/png".into(),
                    data: "AAAA".into(),
                }),
            })],
        ),
    ];
    let content = |images| {
        encode(&messages, &style("m", images))["messages"][2]["content"][0]["content"].clone()
    };
    assert_eq!(content(false), "a picture");
    assert_eq!(content(true)[1]["source"]["media_type"], "image/png");
}
