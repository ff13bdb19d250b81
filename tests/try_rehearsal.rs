//! `delegate try` without a model: everything but the answers is real.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// What must not be seen by anybody.
const CANARY: &str = "canary-private-key-4711";

/// A home with a private key in it, and a folder for temporary files.
fn set_up() -> (TempDir, TempDir) {
    let home = tempfile::tempdir().expect("tempdir");
    std::fs::create_dir(home.path().join(".ssh")).expect("mkdir");
    std::fs::write(home.path().join(".ssh/id_ed25519"), CANARY).expect("write");
    (home, tempfile::tempdir().expect("tempdir"))
}

fn delegate_try(home: &Path, temporary: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_delegate"))
        .args(["try", "--rehearsal"])
        .args(args)
        .env_clear()
        .env("HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TMPDIR", temporary)
        .output()
        .expect("runs")
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("list").count()
}

#[test]
fn the_rehearsal_shows_what_it_promises() {
    let (home, temporary) = set_up();
    let output = delegate_try(home.path(), temporary.path(), &["--json"]);
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let object: Value = serde_json::from_str(&said).expect("JSON");
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for fact in [
        "ok",
        "rehearsal",
        "test_passes",
        "tool_refused",
        "kernel_refused",
        "server_ended_well",
    ] {
        assert_eq!(object[fact], true, "{fact}");
    }
    assert!(
        object["diff"]
            .as_str()
            .is_some_and(|diff| diff.contains("+sub) echo \"$(($2 - $3))\" ;;"))
    );
    let result = &object["result"];
    assert_eq!(result["success"], true);
    assert_eq!(result["agent_name"], "fixer");
    let guarantees = result["enforcement"]["guarantees"]
        .as_object()
        .expect("guarantees");
    assert_eq!(guarantees.len(), 15);
    assert_eq!(object["journal"]["count"], 1);
    assert_eq!(object["journal"]["pending"][0]["path"], "calc.sh");
    assert_eq!(object["journal"]["pending"][0]["status"], "committed");
    let progress: Vec<&str> = object["progress"]
        .as_array()
        .expect("progress")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for word in ["jail open", "turn 1/", "Bash: ", "refused", "journal "] {
        assert!(
            progress.iter().any(|message| message.contains(word)),
            "{word}: {progress:#?}"
        );
    }
    assert!(!said.contains(CANARY));
    // Nothing is left, neither beside the project nor in the home.
    assert_eq!(entries(temporary.path()), 0);
    assert_eq!(entries(home.path()), 1);
    assert_eq!(entries(&home.path().join(".ssh")), 1);
}

#[test]
fn the_page_is_plain_and_narrow_where_nobody_watches() {
    let (home, temporary) = set_up();
    let output = delegate_try(home.path(), temporary.path(), &[]);
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{page}");
    assert!(page.contains("no model: rehearsal"));
    assert!(!page.contains('\u{1b}') && !page.contains(CANARY));
    for line in page.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for heading in [
        "Answer",
        "Changes in the project",
        "Journal",
        "Refused",
        "What held",
        "Spent",
        "Verdict",
    ] {
        assert!(
            page.lines().any(|line| line.starts_with(heading)),
            "{heading}"
        );
    }
}

#[test]
fn the_folder_is_kept_for_those_who_ask() {
    let (home, temporary) = set_up();
    let output = delegate_try(home.path(), temporary.path(), &["--keep"]);
    assert!(output.status.success());
    assert_eq!(entries(temporary.path()), 1);
    let folder = std::fs::read_dir(temporary.path())
        .expect("list")
        .next()
        .expect("one")
        .expect("entry")
        .path();
    assert!(folder.join("project/calc.sh").exists() && folder.join("state").exists());
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    let end: String = page
        .chars()
        .rev()
        .take(200)
        .collect::<String>()
        .chars()
        .rev()
        .collect();
    assert!(end.contains("kept"), "{end}");
}

#[test]
fn a_model_that_does_nothing_is_no_success() {
    // A server that lists a model and answers every call with 500.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let url = format!("http://{}/v1", listener.local_addr().expect("address"));
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in listener.incoming().flatten() {
            let mut seen = [0; 4096];
            let _ = stream.read(&mut seen);
            let _ = stream.write_all(
                b"HTTP/1.1 400 X\r\nContent-Type: application/json\r\nContent-Length: 29\r\nConnection: close\r\n\r\n{\"error\":{\"message\":\"no way\"}}",
            );
        }
    });
    let (home, temporary) = set_up();
    let output = Command::new(env!("CARGO_BIN_EXE_delegate"))
        .args(["try", "--json", "--base-url", &url, "--model", "m"])
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TMPDIR", temporary.path())
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let object: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(object["ok"], false);
    assert_eq!(object["test_passes"], false);
    assert_eq!(object["result"]["success"], false);
    assert_eq!(entries(temporary.path()), 0);
}
