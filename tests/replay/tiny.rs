//! A loop of a hundred lines around the real provider client, with faults that
//! can be switched on: the proof that server and judge have teeth. Its tools
//! are not jailed; it plays only the corpus, never a model.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use delegate::config::RunSettings;
use delegate::provider::{
    Block, Client, Endpoint, Message, Role, Stop, ToolMode, ToolResult, ToolSpec, ToolUse,
    TurnRequest, Wire,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{Case, KEY, MODEL};

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Results of one call are left out of the answer to the host.
    HideExecution,
    /// Calls with unusable arguments run all the same, with none.
    RunMalformed,
    /// The result of the first call goes to the second and back.
    SwapResults,
    /// The key is in the answer.
    TellKey,
    /// Thinking is thrown away.
    ForgetThinking,
    /// Failures are told as success.
    HideFailure,
}

fn tools() -> Vec<ToolSpec> {
    let tool = |name, properties: Value, required: Value| ToolSpec {
        name,
        description: format!("{name} in the workspace"),
        schema: json!({"type": "object", "properties": properties, "required": required}),
    };
    let text = || json!({"type": "string"});
    vec![
        tool(
            "Read",
            json!({"file_path": text(), "limit": {"type": "integer"}}),
            json!(["file_path"]),
        ),
        tool(
            "Write",
            json!({"file_path": text(), "content": text()}),
            json!(["file_path", "content"]),
        ),
        tool("Bash", json!({"command": text()}), json!(["command"])),
        tool(
            "Edit",
            json!({"file_path": text(), "old_string": text(), "new_string": text()}),
            json!(["file_path"]),
        ),
        tool(
            "Grep",
            json!({"pattern": text(), "path": text()}),
            json!(["pattern"]),
        ),
    ]
}

fn run(call: &ToolUse, workspace: &Path) -> (bool, String) {
    let text = |key: &str| {
        call.input
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let path = workspace.join(text("file_path"));
    match call.name.as_str() {
        "Read" => match std::fs::read_to_string(&path) {
            Ok(content) => (true, content.chars().take(20_000).collect()),
            Err(error) => (false, format!("ERROR: {error}")),
        },
        "Write" => match std::fs::write(&path, text("content")) {
            Ok(()) => (true, "OK".into()),
            Err(error) => (false, format!("ERROR: {error}")),
        },
        command @ ("Bash" | "Grep") => {
            let (program, arguments) = match command {
                "Bash" => ("sh", vec!["-c", text("command")]),
                _ => ("grep", vec!["-rP", text("pattern"), "."]),
            };
            let output = Command::new(program)
                .args(arguments)
                .current_dir(workspace)
                .stdin(Stdio::null())
                .output()
                .expect("a shell");
            (
                output.status.success(),
                String::from_utf8_lossy(&output.stdout).into_owned(),
            )
        }
        _ => (false, "ERROR: not in this loop".into()),
    }
}

/// Plays a case and gives the `actual` object.
pub fn play(case: &Case, port: u16, workspace: &Path, fault: Fault) -> Value {
    let settings = case.settings();
    let number = |key: &str| settings[key].as_u64().expect("a number");
    let millis = |key: &str| Duration::from_millis(number(key));
    let settings = RunSettings {
        max_attempts: number("max_attempts") as u32,
        retry_base: millis("retry_base_ms"),
        retry_cap: millis("retry_cap_ms"),
        connect_timeout: millis("connect_timeout_ms"),
        first_byte_timeout: millis("first_byte_timeout_ms"),
        idle_timeout: millis("idle_timeout_ms"),
        max_turns: number("max_turns") as u32,
        max_output_tokens: number("max_output_tokens") as u32,
        context_window: number("context_window") as u32,
        ..RunSettings::default()
    };
    let endpoint = Endpoint {
        base_url: case.base_url(port).parse().expect("a URL"),
        wire: if case.format == "openai" {
            Wire::Openai
        } else {
            Wire::Anthropic
        },
        model: MODEL.into(),
        key: Some(KEY.to_owned().into()),
        extra_body: Map::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(turns(
        case,
        Client::new(endpoint, &settings).expect("a client"),
        &settings,
        workspace,
        fault,
    ))
}

async fn turns(
    case: &Case,
    mut client: Client,
    settings: &RunSettings,
    workspace: &Path,
    fault: Fault,
) -> Value {
    let tools = tools();
    let mut messages = vec![Message::user(&case.task)];
    let mut executions: Vec<Value> = Vec::new();
    let (mut input, mut output, mut reported) = (0, 0, false);
    let cancel = CancellationToken::new();
    let ended = |outcome: &str,
                 class: Option<&str>,
                 error: Option<&str>,
                 text: Option<&str>,
                 ran: &[Value],
                 usage| {
        json!({"outcome": outcome, "error_class": class, "error_text": error, "final_text": text,
            "usage": usage, "executions": ran})
    };
    for _ in 0..settings.max_turns {
        let request = TurnRequest {
            system: "Work in the workspace.",
            messages: &messages,
            tools: &tools,
            max_output_tokens: settings.max_output_tokens,
            tool_mode: ToolMode::Auto,
        };
        let usage = |reported: bool, input: u64, output: u64| {
            reported.then(|| json!({"input_tokens": input, "output_tokens": output}))
        };
        let mut reply = match client.turn(request, &cancel, &mut |_| {}).await {
            Ok(reply) => reply,
            Err(error) => {
                let (class, text) = (error.class.code(), error.to_string());
                let usage = usage(reported, input, output);
                return ended("failed", Some(class), Some(&text), None, &executions, usage);
            }
        };
        if let Some(usage) = reply.usage {
            reported = true;
            input += usage.input_tokens;
            output += usage.output_tokens;
        }
        if fault == Fault::ForgetThinking {
            reply
                .message
                .blocks
                .retain(|b| matches!(b, Block::Text { .. } | Block::ToolUse(_)));
        }
        let calls: Vec<ToolUse> = reply.message.tool_uses().cloned().collect();
        if calls.is_empty() {
            let mut text = reply.message.text();
            if fault == Fault::TellKey {
                text.push_str(KEY);
            }
            if reply.stop == Stop::MaxTokens {
                let usage = usage(reported, input, output);
                return ended(
                    "failed",
                    Some("output_truncated"),
                    None,
                    None,
                    &executions,
                    usage,
                );
            }
            return ended(
                "completed",
                None,
                None,
                Some(&text),
                &executions,
                usage(reported, input, output),
            );
        }
        let mut results = Vec::new();
        for call in &calls {
            let known = tools
                .iter()
                .find(|tool| tool.name.eq_ignore_ascii_case(&call.name));
            let (ok, content) = match (&call.malformed, known) {
                (Some(why), _) if fault != Fault::RunMalformed => (false, format!("ERROR: {why}")),
                (_, None) => {
                    let names: Vec<&str> = tools.iter().map(|t| t.name).collect();
                    (
                        false,
                        format!("ERROR: unknown tool; the tools are {}", names.join(", ")),
                    )
                }
                (_, Some(tool)) => {
                    let call = ToolUse {
                        name: tool.name.to_owned(),
                        ..call.clone()
                    };
                    let (ok, content) = run(&call, workspace);
                    if fault != Fault::HideExecution {
                        executions.push(json!({"tool": tool.name, "args": call.input, "ok": ok, "output": content}));
                    }
                    (ok || fault == Fault::HideFailure, content)
                }
            };
            let content = if fault == Fault::HideFailure {
                "fine".into()
            } else {
                content
            };
            results.push(ToolResult {
                tool_use_id: call.id.clone(),
                content,
                is_error: !ok,
                image: None,
            });
        }
        if fault == Fault::SwapResults && results.len() > 1 {
            let first = results[0].content.clone();
            results[0].content = results[1].content.clone();
            results[1].content = first;
        }
        messages.push(reply.message);
        messages.push(Message {
            role: Role::User,
            blocks: results.into_iter().map(Block::ToolResult).collect(),
            answered_by: None,
        });
    }
    ended("failed", Some("turn_limit"), None, None, &executions, None)
}
