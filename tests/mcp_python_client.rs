//! The PyPI `mcp` client drives the server; it checks every structured result
//! against the tool's schema by itself. `scripts/test-python` makes what it needs.

mod mcp_support;

use std::path::PathBuf;
use std::process::Command;

use mcp_support::provider::{Provider, Reply};
use serde_json::{Value, json};

/// The Python of `scripts/test-python`, if it has been run.
fn python() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    let folder = target.join("test-python");
    folder
        .join(".ready")
        .exists()
        .then(|| folder.join("bin/python"))
}

#[test]
fn the_python_client_is_served() {
    let Some(python) = python() else {
        println!("skipped: the_python_client_is_served: no Python client; run scripts/test-python");
        return;
    };
    let provider = Provider::start(vec![
        Reply::Call(vec![(
            "Write".to_owned(),
            json!({"file_path": "hello.txt", "content": "hello\n"}),
        )]),
        Reply::Say("Wrote hello.txt.".to_owned()),
    ]);
    let home = tempfile::tempdir().expect("tempdir");
    let project = home.path().join("project");
    std::fs::create_dir(&project).expect("project");
    let output = Command::new(python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/python/mcp_client.py"
        ))
        .arg(env!("CARGO_BIN_EXE_delegate"))
        .arg(&project)
        .arg(home.path().join("state"))
        .arg(&provider.base_url)
        .env("HOME", home.path())
        .output()
        .expect("python runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let saw: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(saw["protocol"], "2025-11-25");
    assert_eq!(saw["server"], "delegate");
    assert_eq!(saw["tools"].as_array().map(Vec::len), Some(8));
    assert!(
        saw["ping"]
            .as_str()
            .is_some_and(|text| text.contains("pong"))
    );
    assert_eq!(saw["models"], json!(["fake-model"]));

    let delegated = &saw["delegated"];
    assert_eq!(delegated["ok"], true, "{delegated}");
    assert_eq!(delegated["mutations"][0]["path"], "hello.txt");
    assert!(delegated["enforcement"]["guarantees"]["writes"].is_object());
    assert!(
        saw["delegated_text"]
            .as_str()
            .is_some_and(|text| text.starts_with("[deepseek-mcp recovery required]"))
    );
    assert_eq!(
        std::fs::read_to_string(project.join("hello.txt")).expect("written"),
        "hello\n"
    );
    assert!(
        saw["progress"]
            .as_array()
            .is_some_and(|notes| notes.len() >= 3)
    );

    assert!(
        saw["refused"]
            .as_str()
            .is_some_and(|text| text.starts_with("ERROR: DeepSeek execution blocked:"))
    );
    assert_eq!(saw["recovery"]["pending"][0]["status"], "committed");
    assert_eq!(saw["acknowledged"]["ok"], true);
    assert_eq!(saw["left"], 0);
    assert_eq!(saw["wrong_is_error"], true);
    assert_eq!(saw["missing_agent"]["error_code"], "agent_not_found");
}
