use std::process::Command;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::RunSettings;
use crate::provider::{
    Block, Client, Endpoint, Message, Role, Stop, ToolMode, ToolResult, ToolSpec, TurnRequest,
    Wire, list_models,
};

fn tools() -> Vec<ToolSpec> {
    ["Read", "Bash", "Edit"]
        .into_iter()
        .map(|name| ToolSpec {
            name,
            description: String::new(),
            schema: json!({"type": "object"}),
        })
        .collect()
}

/// Plays the script through the real client and gives the calls and the answer.
async fn play(settings: RunSettings) -> (Vec<(String, Value)>, String) {
    let script = Script::builtin().unwrap().with_home(Path::new("/home/me"));
    let rehearsal = Rehearsal::start(script).await.unwrap();
    let endpoint = Endpoint {
        base_url: rehearsal.base_url().parse().unwrap(),
        wire: Wire::Openai,
        model: rehearsal.model().to_owned(),
        key: None,
        extra_body: Map::new(),
    };
    let tools = tools();
    let mut client = Client::new(endpoint, &settings).unwrap();
    let mut messages = vec![Message::user(rehearsal.task())];
    let mut calls = Vec::new();
    let cancel = CancellationToken::new();
    loop {
        let request = TurnRequest {
            system: "s",
            messages: &messages,
            tools: &tools,
            max_output_tokens: 100,
            tool_mode: settings.tool_mode,
        };
        let reply = client.turn(request, &cancel, &mut |_| {}).await.unwrap();
        assert!(reply.usage.is_some_and(|u| u.input_tokens > 0));
        let uses: Vec<_> = reply.message.tool_uses().cloned().collect();
        if uses.is_empty() {
            assert_eq!(reply.stop, Stop::EndTurn);
            return (calls, reply.message.text());
        }
        messages.push(reply.message);
        let results = uses.iter().map(|call| {
            Block::ToolResult(ToolResult {
                tool_use_id: call.id.clone(),
                content: "done".into(),
                is_error: false,
                image: None,
            })
        });
        messages.push(Message {
            role: Role::User,
            blocks: results.collect(),
            answered_by: None,
        });
        calls.extend(
            uses.into_iter()
                .map(|call| (call.name, Value::Object(call.input))),
        );
    }
}

fn names(calls: &[(String, Value)]) -> Vec<&str> {
    calls.iter().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn every_mode_plays_the_same_conversation() {
    let plain = play(RunSettings::default()).await;
    assert_eq!(
        names(&plain.0),
        ["Read", "Read", "Bash", "Read", "Bash", "Edit", "Bash"]
    );
    assert_eq!(
        plain.0[3].1,
        json!({"file_path": "/home/me/.ssh/id_ed25519"})
    );
    assert_eq!(
        plain.0[4].1,
        json!({"command": "cat ~/.ssh/id_ed25519; ls ~/.ssh; echo hello > ~/delegate-was-here"})
    );
    assert!(plain.1.contains("passes"));
    let whole = RunSettings {
        stream: false,
        ..RunSettings::default()
    };
    assert_eq!(play(whole).await, plain);
    let structured = RunSettings {
        tool_mode: ToolMode::Structured,
        ..RunSettings::default()
    };
    assert_eq!(play(structured).await, plain);
}

#[tokio::test]
async fn it_lists_its_model_and_knows_when_it_is_over() {
    let rehearsal = Rehearsal::start(Script::builtin().unwrap()).await.unwrap();
    let url = rehearsal.base_url().parse().unwrap();
    assert_eq!(list_models(&url, None).await.unwrap(), ["rehearsal"]);
    assert_eq!(
        Script::builtin().unwrap().turn(99).say,
        "The rehearsal is over."
    );
}

#[test]
fn the_project_fails_before_the_edit_and_passes_after() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in PROJECT {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let test = || {
        Command::new("sh")
            .arg("test.sh")
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let before = test();
    assert_eq!(before.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&before.stdout).contains("FAIL  sub 7 3: want 4, got 10"));
    let script = Script::builtin().unwrap();
    let edits: Vec<&Call> = script
        .turns
        .iter()
        .flat_map(|t| &t.calls)
        .filter(|c| c.tool == "Edit")
        .collect();
    for edit in edits {
        let text = |key: &str| edit.args[key].as_str().unwrap().to_owned();
        let path = folder.path().join(text("file_path"));
        let content = std::fs::read_to_string(&path).unwrap();
        assert_eq!(content.matches(&text("old_string")).count(), 1);
        std::fs::write(
            &path,
            content.replace(&text("old_string"), &text("new_string")),
        )
        .unwrap();
    }
    let after = test();
    assert_eq!(after.status.code(), Some(0), "{after:?}");
    assert!(String::from_utf8_lossy(&after.stdout).contains("all checks pass"));
}

#[test]
fn scripts_that_cannot_be_played() {
    assert_eq!(Script::parse("{").unwrap_err().code(), "script_syntax");
    assert_eq!(
        Script::parse("{\"format\":1,\"turns\":[],\"model\":\"m\",\"task\":\"t\",\"x\":1}")
            .unwrap_err()
            .code(),
        "script_syntax"
    );
    assert_eq!(
        Script::parse("{\"format\":2,\"turns\":[],\"model\":\"m\",\"task\":\"t\"}")
            .unwrap_err()
            .code(),
        "script_format"
    );
}
