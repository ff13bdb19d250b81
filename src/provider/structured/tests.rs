use serde_json::json;

use super::*;
use crate::provider::resend::Resend;
use crate::provider::{Block, Message, Role, ToolMode, ToolResult, ToolUse, Wire};

fn tools() -> Vec<ToolSpec> {
    let read = json!({"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]});
    vec![
        ToolSpec {
            name: "Read",
            description: "Reads a file.".into(),
            schema: read,
        },
        ToolSpec {
            name: "Bash",
            description: "Runs a command.".into(),
            schema: json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}),
        },
    ]
}

fn made(text: &str, stop: &str) -> Made {
    let draft = Draft {
        pieces: vec![Piece::Text(text.into())],
        stop: Some(stop.into()),
        usage: None,
        model: None,
    };
    let tools = tools();
    let ground = Ground {
        wire: Wire::Openai,
        tools: &tools,
        messages: &[],
    };
    assemble(draft, ground).unwrap()
}

fn one_call(text: &str, stop: &str) -> ToolUse {
    let made = made(text, stop);
    let calls: Vec<_> = made.reply.message.tool_uses().cloned().collect();
    assert_eq!(calls.len(), 1, "{text}: {made:?}");
    assert_eq!(made.reply.message.text(), "");
    calls[0].clone()
}

#[test]
fn the_schema_holds_one_action() {
    assert_eq!(
        schema(&tools()[..1]),
        json!({"oneOf": [
            {"type": "object", "properties": {"tool": {"const": "Read"}, "file_path": {"type": "string"}}, "required": ["tool", "file_path"], "additionalProperties": false},
            {"type": "object", "properties": {"tool": {"const": "Finish"}, "summary": {"type": "string"}}, "required": ["tool", "summary"], "additionalProperties": false},
        ]})
    );
}

#[test]
fn a_tool_is_told_in_one_line() {
    let tool = ToolSpec {
        name: "Edit",
        description: "Replace a piece of a file. It must occur once.".into(),
        schema: json!({
            "properties": {
                "file_path": {"type": "string"}, "replace_all": {"type": "boolean"},
                "times": {"type": "integer"}, "mood": {"type": "string"},
            },
            "required": ["file_path", "times", "mood"],
        }),
    };
    assert_eq!(
        line(&tool),
        "Edit: Replace a piece of a file. \
         {\"tool\":\"Edit\",\"file_path\":\"notes.txt\",\"times\":1,\"mood\":\"text\"}"
    );
}

#[test]
fn the_conversation_is_plain_text() {
    let call = |id: &str, name: &str, input: Value| {
        Block::ToolUse(ToolUse {
            id: id.into(),
            name: name.into(),
            input: input.as_object().cloned().unwrap(),
            malformed: None,
        })
    };
    let messages = [
        Message::user("fix it"),
        Message {
            role: Role::Assistant,
            // A turn from before the switch, with two native calls.
            blocks: vec![
                call("a", "Read", json!({"file_path": "x"})),
                call("b", "Bash", json!({"command": "ls"})),
            ],
            answered_by: None,
        },
        Message {
            role: Role::User,
            blocks: vec![Block::ToolResult(ToolResult {
                tool_use_id: "a".into(),
                content: "alpha".into(),
                is_error: false,
                image: None,
            })],
            answered_by: None,
        },
        Message {
            role: Role::Assistant,
            blocks: vec![Block::Text {
                text: "all done".into(),
            }],
            answered_by: None,
        },
        Message::user("really?"),
    ];
    let tools = tools();
    let request = TurnRequest {
        system: "sys",
        messages: &messages,
        tools: &tools,
        max_output_tokens: 9,
        tool_mode: ToolMode::Structured,
    };
    let style = Style {
        model: "m".into(),
        stream: true,
        bound: "max_tokens",
        stream_usage: true,
        images: false,
        resend: Resend::Auto,
    };
    let body = Value::Object(body(&request, 9, &style));
    assert!(body.get("tools").is_none());
    assert_eq!(body["response_format"]["type"], "json_schema");
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    assert_eq!(
        body["response_format"]["json_schema"]["schema"],
        schema(&tools)
    );
    let said = body["messages"].as_array().unwrap();
    assert!(
        said[0]["content"]
            .as_str()
            .unwrap()
            .starts_with("sys\n\nAnswer each time")
    );
    assert!(
        said[0]["content"]
            .as_str()
            .unwrap()
            .contains("- Bash: Runs a command. {\"tool\":\"Bash\",\"command\":\"ls\"}")
    );
    let rest: Vec<(&str, &str)> = said[1..]
        .iter()
        .map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap()))
        .collect();
    assert_eq!(
        rest,
        [
            ("user", "fix it"),
            (
                "assistant",
                "{\"tool\":\"Read\",\"file_path\":\"x\"}\n{\"tool\":\"Bash\",\"command\":\"ls\"}"
            ),
            (
                "user",
                "Result of Read:\nalpha\n\nResult of Bash:\nERROR: this call was not run"
            ),
            (
                "assistant",
                "{\"tool\":\"Finish\",\"summary\":\"all done\"}"
            ),
            ("user", "really?"),
        ]
    );
}

#[test]
fn actions_are_read() {
    for text in [
        "{\"tool\":\"Read\",\"file_path\":\"x\"}",
        "```json\n{\"tool\": \"Read\", \"file_path\": \"x\"}\n```",
        "<think>hm</think>{\"tool\":\"Read\",\"arguments\":{\"file_path\":\"x\"}}",
        "{\"name\":\"Read\",\"arguments\":{\"file_path\":\"x\"}}",
        "{\"tool\":\"Read\",\"file_path\":\"x\"}\n{\"tool\":\"Bash\",\"command\":\"ls\"}",
    ] {
        let call = one_call(text, "stop");
        assert_eq!(
            (call.name.as_str(), &call.malformed),
            ("Read", &None),
            "{text}"
        );
        assert_eq!(
            Value::Object(call.input),
            json!({"file_path": "x"}),
            "{text}"
        );
        assert!(!call.id.is_empty());
    }
}

#[test]
fn finish_and_plain_words_are_answers() {
    for (text, want) in [
        (
            "{\"tool\":\"Finish\",\"summary\":\"It is fixed.\"}",
            "It is fixed.",
        ),
        ("{\"tool\":\"finish\"}", "Finished."),
        ("It is fixed.", "It is fixed."),
        ("{\"colour\":\"red\"}", "{\"colour\":\"red\"}"),
    ] {
        let made = made(text, "stop");
        assert_eq!(made.reply.message.text(), want);
        assert_eq!(made.reply.stop, Stop::EndTurn);
    }
}

#[test]
fn an_action_that_was_cut_off_does_not_run() {
    let call = one_call("{\"tool\":\"Bash\",\"command\":\"echo aaaa", "length");
    assert_eq!(call.name, "Bash");
    assert!(call.malformed.is_some() && call.input.is_empty());
    let call = one_call("{\"tool\":\"Bash\",\"command\":}", "stop");
    assert!(call.malformed.is_some());
    let made = made("{\"to", "length");
    assert!(made.reply.message.blocks.is_empty());
    assert_eq!(made.reply.stop, Stop::MaxTokens);
}
