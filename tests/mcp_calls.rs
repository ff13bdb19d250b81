//! Delegation through the real binary: progress, cancellation and the end of
//! the host while work is under way, against a model server on loopback.

mod mcp_support;

use std::time::{Duration, Instant};

use mcp_support::provider::{Provider, Reply};
use mcp_support::{SOON, Server, Start, eventually, processes_with, text_of, write};
use rustix::process::Signal;
use serde_json::{Value, json};

fn serve(provider: &Provider) -> Server {
    serve_with(provider, &[])
}

fn serve_with(provider: &Provider, more: &[&str]) -> Server {
    let mut server = Start::new()
        .args(&["--base-url", &provider.base_url, "--model", "fake-model"])
        .args(more)
        .go();
    server.initialize();
    server
}

fn call(name: &str, args: Value) -> Reply {
    Reply::Call(vec![(name.to_owned(), args)])
}

/// A command that runs for a minute and can be told from all others.
fn slow_command() -> (String, String) {
    let marker = format!("60.{:09}", u64::from(std::process::id()) * 1_000 + unique());
    (format!("sleep {marker}"), marker)
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn task() -> Value {
    json!({"task": "do it"})
}

/// Starts a delegation whose command is running when this returns.
fn busy_with_a_command() -> (Server, String) {
    let (command, marker) = slow_command();
    let provider = Provider::start(vec![
        call("Bash", json!({"command": command})),
        Reply::Say("late".to_owned()),
    ]);
    let mut server = serve(&provider);
    server.call(json!(1), "delegate_to_deepseek", task(), Some(json!("t")));
    eventually("the command runs", SOON, || {
        !processes_with(&marker).is_empty()
    });
    (server, marker)
}

fn gone(marker: &str) {
    eventually("the process tree is gone", Duration::from_secs(1), || {
        processes_with(marker).is_empty()
    });
}

#[test]
fn a_run_through_the_whole_house() {
    for token in [json!("tok-26"), json!(26)] {
        let provider = Provider::start(vec![
            call("Write", json!({"file_path": "a.txt", "content": "one\n"})),
            call("Bash", json!({"command": "cat a.txt; exit 3"})),
            Reply::Say("done".to_owned()),
        ]);
        let mut server = serve(&provider);
        server.call(
            json!(1),
            "delegate_to_deepseek",
            task(),
            Some(token.clone()),
        );
        let answer = server.answer(json!(1));
        let object = &answer["result"]["structuredContent"];
        assert_eq!(object["ok"], true, "{object}");
        assert_eq!(object["turns_used"], 3);
        assert_eq!(object["mutations"][0]["path"], "a.txt");
        assert_eq!(object["bash"]["failures"][0]["exit_code"], 3);
        assert_eq!(
            object["enforcement"]["guarantees"]["writes"]["strength"],
            "enforced"
        );
        let text = text_of(&answer);
        assert!(text.starts_with("[deepseek-mcp recovery required] "));
        assert!(text.contains("\n\n---\n[deepseek-mcp] 3 turns, 2 tool calls, "));
        assert!(text.contains("\n[deepseek-mcp bash] {\"calls\":1,"));
        assert_eq!(
            std::fs::read_to_string(server.project.join("a.txt")).expect("written"),
            "one\n"
        );
        let mut last = f64::MIN;
        for note in &server.seen {
            assert_eq!(note["params"]["progressToken"], token, "{note}");
            let value = note["params"]["progress"].as_f64().expect("a number");
            assert!(value > last);
            last = value;
        }
        assert!(server.seen.len() >= 3 + 4, "{:?}", server.seen);
    }
}

#[test]
fn a_cancel_reaches_the_provider_and_the_server_stays_usable() {
    let provider = Provider::start(vec![Reply::Hang, Reply::Say("second".to_owned())]);
    let mut server = serve_with(&provider, &["--set", "progress_interval_ms=200"]);
    server.call(json!(1), "delegate_to_deepseek", task(), Some(json!("t")));
    provider.request(SOON);
    // Signs of life come while the model is silent.
    let mut alive = 0;
    while alive < 3 {
        let note = server.next();
        assert_eq!(note["params"]["progressToken"], "t");
        let message = note["params"]["message"].as_str().unwrap_or_default();
        alive += usize::from(message.starts_with("working, "));
    }
    let cancelled = Instant::now();
    server.cancel(json!(1));
    let closed = provider.closed(SOON);
    assert!(closed.duration_since(cancelled) < Duration::from_secs(1));
    server.request(json!(2), "tools/list", json!({}));
    server.answer(json!(2));
    let late = server.next_within(Duration::from_millis(600));
    assert!(late.is_none(), "said after the cancel: {late:?}");
    // Late and unknown cancels are harmless, and the workspace is free.
    server.cancel(json!(1));
    server.cancel(json!("never"));
    server.call(json!(3), "delegate_to_deepseek", task(), None);
    let answer = server.answer(json!(3));
    assert!(text_of(&answer).starts_with("second"), "{answer}");
    server.cancel(json!(3));
    assert!(!server.tools().is_empty());
}

#[test]
fn a_cancel_reaches_the_process_tree_and_frees_the_workspace_at_once() {
    let (mut server, marker) = busy_with_a_command();
    server.cancel(json!(1));
    // Not refused as busy: the run that is being stopped is waited for.
    server.call(json!(2), "delegate_to_deepseek", task(), None);
    let answer = server.answer(json!(2));
    assert!(text_of(&answer).starts_with("late"), "{answer}");
    assert!(processes_with(&marker).is_empty());
    let (mut server, marker) = busy_with_a_command();
    write(&server.project.join(".claude/agents/a.md"), "You work.\n");
    server.cancel(json!(1));
    let args = json!({"agent_name": "a", "task": "t"});
    server.call(json!(2), "delegate_to_local_agent", args, None);
    let answer = server.answer(json!(2));
    assert_eq!(
        answer["result"]["structuredContent"]["success"], true,
        "{answer}"
    );
    gone(&marker);
}

#[test]
fn the_end_of_the_host_leaves_nothing_running() {
    type End = fn(&mut Server);
    let ends: [(&str, End); 4] = [
        ("EOF", |server| server.close_input()),
        ("SIGINT", |server| server.signal(Signal::INT)),
        ("SIGTERM", |server| server.signal(Signal::TERM)),
        ("SIGHUP", |server| server.signal(Signal::HUP)),
    ];
    for (name, end) in ends {
        let (mut server, marker) = busy_with_a_command();
        end(&mut server);
        let status = server.wait(Duration::from_secs(3));
        assert_eq!(status.code(), Some(0), "{name}");
        gone(&marker);
    }
}

#[test]
fn a_server_that_is_killed_leaves_nothing_running() {
    let (mut server, marker) = busy_with_a_command();
    server.signal(Signal::KILL);
    server.wait(SOON);
    gone(&marker);
}

#[test]
fn a_second_server_finds_the_workspace_busy() {
    let (mut server, marker) = busy_with_a_command();
    let provider = Provider::start(vec![Reply::Say("never".to_owned())]);
    let home = server.home.path().display().to_string();
    let project = server.project.display().to_string();
    let mut second = Start::new()
        .args(&["--base-url", &provider.base_url, "--model", "fake-model"])
        .args(&["--workspace", &project])
        .env("HOME", &home)
        .go();
    second.call(json!(1), "delegate_to_deepseek", task(), None);
    let answer = second.answer(json!(1));
    assert!(
        text_of(&answer).starts_with("ERROR: DeepSeek execution busy:"),
        "{answer}"
    );
    // And so does a second call in the same one.
    server.call(json!(2), "delegate_to_deepseek_readonly", task(), None);
    let answer = server.answer(json!(2));
    assert!(text_of(&answer).starts_with("ERROR: DeepSeek execution busy:"));
    // The list of changes is there all the same; settling waits for the end.
    second.call(json!(3), "get_deepseek_recovery", json!({}), None);
    assert_eq!(
        second.answer(json!(3))["result"]["structuredContent"]["ok"],
        true
    );
    server.cancel(json!(1));
    gone(&marker);
    eventually("the workspace is free", SOON, || {
        second.call(json!(4), "delegate_to_deepseek", task(), None);
        text_of(&second.answer(json!(4))).starts_with("never")
    });
}

#[test]
fn changes_block_until_they_are_acknowledged() {
    let provider = Provider::start(vec![
        call("Write", json!({"file_path": "a.txt", "content": "one\n"})),
        call("Write", json!({"file_path": "b.txt", "content": "two\n"})),
        Reply::Say("done".to_owned()),
    ]);
    let mut server = serve(&provider);
    server.call(json!(1), "delegate_to_deepseek", task(), None);
    let answer = server.answer(json!(1));
    let ids: Vec<String> = answer["result"]["structuredContent"]["mutations"]
        .as_array()
        .expect("mutations")
        .iter()
        .map(|change| {
            change["transaction_id"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(ids.len(), 2, "{answer}");

    // A new server without a key knows of them and blocks as well.
    let home = server.home.path().display().to_string();
    let project = server.project.display().to_string();
    server.close_input();
    server.wait(SOON);
    let mut server = Start::new()
        .args(&["--base-url", &provider.base_url, "--model", "fake-model"])
        .args(&["--workspace", &project])
        .env("HOME", &home)
        .go();
    for tool in ["delegate_to_deepseek", "delegate_to_deepseek_readonly"] {
        server.call(json!(tool), tool, task(), None);
        let answer = server.answer(json!(tool));
        let text = text_of(&answer);
        assert!(
            text.starts_with("ERROR: DeepSeek execution blocked:"),
            "{text}"
        );
        assert!(ids.iter().all(|id| text.contains(id)));
    }
    let mut ask = |tool: &str, args: Value| {
        server.call(json!(tool), tool, args, None);
        server.answer(json!(tool))["result"]["structuredContent"].clone()
    };
    std::fs::write(std::path::Path::new(&project).join("b.txt"), "other\n").expect("write");
    let recovery = ask("get_deepseek_recovery", json!({}));
    assert_eq!(recovery["count"], 2);
    assert_eq!(recovery["pending"][0]["status"], "committed");
    assert_eq!(recovery["pending"][1]["status"], "uncertain");

    let acknowledge = "acknowledge_deepseek_mutations";
    assert_eq!(
        ask(acknowledge, json!({"transaction_ids": ["zz"]}))["ok"],
        false
    );
    let unknown = "0".repeat(32);
    let done = ask(acknowledge, json!({"transaction_ids": [unknown]}));
    assert_eq!(
        (&done["ok"], &done["acknowledged"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(done["unknown"], json!([unknown]));
    let done = ask(acknowledge, json!({"transaction_ids": [ids[0]]}));
    assert_eq!(done["acknowledged"], json!([ids[0]]));
    assert_eq!(done["pending"], json!([ids[1]]));
    let text = ask("delegate_to_deepseek", task())["error"].clone();
    assert!(
        text.as_str()
            .is_some_and(|text| text.contains("blocked") && text.contains(&ids[1]))
    );
    let done = ask(acknowledge, json!({"transaction_ids": [ids[1], ids[1]]}));
    assert_eq!(done["pending"], json!([]));
    // Twice is once, and the file is as it was found.
    assert_eq!(
        ask(acknowledge, json!({"transaction_ids": [ids[1]]}))["ok"],
        true
    );
    assert_eq!(
        std::fs::read_to_string(std::path::Path::new(&project).join("b.txt")).expect("read"),
        "other\n"
    );
    assert_eq!(ask("delegate_to_deepseek", task())["ok"], true);
}

#[test]
fn changes_are_only_reported_where_that_was_asked_for() {
    let provider = Provider::start(vec![
        call("Write", json!({"file_path": "a.txt", "content": "one\n"})),
        Reply::Say("done".to_owned()),
    ]);
    let mut server = Start::new()
        .args(&["--base-url", &provider.base_url, "--model", "fake-model"])
        .env("DELEGATE_RECOVERY", "report")
        .go();
    server.call(json!(1), "delegate_to_deepseek", task(), None);
    server.answer(json!(1));
    server.call(json!(2), "delegate_to_deepseek", task(), None);
    let object = server.answer(json!(2))["result"]["structuredContent"].clone();
    assert_eq!(object["ok"], true, "{object}");
    assert!(
        object["notices"][0]
            .as_str()
            .is_some_and(|notice| notice.contains("not acknowledged"))
    );
}

#[test]
fn a_failure_after_a_change_names_it_and_its_cause() {
    let provider = Provider::start(vec![
        call("Write", json!({"file_path": "a.txt", "content": "one\n"})),
        Reply::Status(
            400,
            json!({"error": {"message": "no such parameter", "type": "invalid_request_error"}}),
        ),
    ]);
    let mut server = serve(&provider);
    server.call(json!(1), "delegate_to_deepseek", task(), None);
    let answer = server.answer(json!(1));
    let text = text_of(&answer);
    let object = &answer["result"]["structuredContent"];
    assert!(text.starts_with("ERROR:"), "{text}");
    for part in [
        "DO NOT RETRY",
        "400",
        object["mutations"][0]["transaction_id"]
            .as_str()
            .unwrap_or("?"),
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(object["error_code"], "bad_request");
}

#[test]
fn reading_is_held_against_the_kernel() {
    let provider = Provider::start(vec![
        Reply::Call(vec![
            (
                "Write".to_owned(),
                json!({"file_path": "a.txt", "content": "x"}),
            ),
            ("Bash".to_owned(), json!({"command": "touch b.txt"})),
        ]),
        Reply::Say("could not".to_owned()),
    ]);
    let mut server = serve(&provider);
    server.call(json!(1), "delegate_to_deepseek_readonly", task(), None);
    let answer = server.answer(json!(1));
    assert_eq!(
        answer["result"]["structuredContent"]["ok"], true,
        "{answer}"
    );
    let first = provider.request(SOON);
    let mut names: Vec<&str> = first["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["Glob", "Grep", "Read"]);
    assert_eq!(std::fs::read_dir(&server.project).expect("list").count(), 0);
}

#[test]
fn an_agent_runs_and_its_file_decides_what_it_may() {
    let provider = Provider::start(vec![Reply::Say("looked".to_owned())]);
    let mut server = serve(&provider);
    write(
        &server.project.join(".claude/agents/reader.md"),
        "---\nname: reader\ndescription: reads\ntools: Read, Grep\n---\nYou read.\n",
    );
    server.call(
        json!(1),
        "delegate_to_local_agent",
        json!({"agent_name": "reader", "task": "look", "max_turns": 7}),
        Some(json!(1)),
    );
    let answer = server.answer(json!(1));
    let object = &answer["result"]["structuredContent"];
    assert_eq!(object["success"], true, "{object}");
    assert_eq!(object["agent_source"], "project-agent");
    assert_eq!(object["final_response"], "looked");
    assert_eq!(object["max_turns"], 7);
    assert_eq!(object["stop_reason"], "end_turn");
    assert_eq!(
        serde_json::from_str::<Value>(text_of(&answer)).expect("JSON"),
        *object
    );
    let request = provider.request(SOON);
    let system = request["messages"][0]["content"]
        .as_str()
        .unwrap_or_default();
    assert!(system.starts_with("MODE:LOCAL"), "{system}");
    assert!(system.trim_end().ends_with("You read."), "{system}");
    assert_eq!(request["tools"].as_array().map(Vec::len), Some(2));
    for name in ["../x", "a/b", "..", "", "reader\n", "nobody"] {
        server.call(
            json!(2),
            "delegate_to_local_agent",
            json!({"agent_name": name, "task": "t"}),
            None,
        );
        let object = server.answer(json!(2))["result"]["structuredContent"].clone();
        assert_eq!(
            object["error_code"], "agent_not_found",
            "{name:?}: {object}"
        );
        assert!(object["available_hint"].is_string());
    }
}

#[test]
fn the_global_agents_are_listed() {
    let provider = Provider::start(vec![Reply::Say("x".to_owned())]);
    let mut server = serve(&provider);
    server.call(json!(1), "list_local_agents", json!({}), None);
    let object = server.answer(json!(1))["result"]["structuredContent"].clone();
    assert_eq!(object["agents"], json!([]));
    assert!(object["error"].is_string());
    let folder = server.home.path().join(".claude/agents");
    write(
        &folder.join("b.md"),
        "---\ndescription: second\nmodel: m\n---\nB\n",
    );
    write(
        &folder.join("a.md"),
        &format!("---\ndescription: {}\n---\nA\n", "long ".repeat(60)),
    );
    server.call(json!(2), "list_local_agents", json!({}), None);
    let object = server.answer(json!(2))["result"]["structuredContent"].clone();
    assert_eq!(object["count"], 2);
    assert_eq!(object["agents"][0]["name"], "a");
    assert_eq!(object["agents"][1]["declared_model"], "m");
    let description = object["agents"][0]["description"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(description.chars().count(), 200);
}

#[test]
fn the_health_of_the_model_server_is_told() {
    let provider = Provider::start(vec![Reply::Say("x".to_owned())]);
    let mut server = serve(&provider);
    server.call(json!(1), "local_backend_status", json!({}), None);
    let object = server.answer(json!(1))["result"]["structuredContent"].clone();
    assert_eq!(object["available_models"], json!(["fake-model"]));
    assert_eq!(object["default_model"], "fake-model");
    assert_eq!(object["liveness_status"], 200);
    // A port where nobody is.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let url = format!("http://{}/v1", free.local_addr().expect("address"));
    drop(free);
    let mut server = Start::new().args(&["--base-url", &url]).go();
    server.call(json!(1), "local_backend_status", json!({}), None);
    let object = server.answer(json!(1))["result"]["structuredContent"].clone();
    assert!(
        object["error"].is_string() && object["models_error"].is_string(),
        "{object}"
    );
}

#[test]
fn places_where_no_agent_may_work_are_refused() {
    let provider = Provider::start(vec![Reply::Say("never".to_owned())]);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_delegate"));
    let beside = program.parent().expect("a folder").display().to_string();
    for place in [
        "..",
        "/",
        "../.ssh",
        "no-such-folder",
        "/etc/passwd",
        &beside,
    ] {
        let mut server = serve_with(&provider, &["--workspace", place]);
        std::fs::create_dir(server.home.path().join(".ssh")).expect("mkdir");
        server.call(json!(1), "ping", json!({}), None);
        assert!(
            text_of(&server.answer(json!(1))).contains("NOT_CONFIGURED"),
            "{place}"
        );
        server.call(json!(2), "delegate_to_deepseek", task(), None);
        let answer = server.answer(json!(2));
        assert!(
            text_of(&answer).starts_with("ERROR: deepseek-mcp not configured:"),
            "{place}: {answer}"
        );
    }
    // Its twin works.
    let mut server = serve_with(&provider, &["--workspace", "."]);
    server.call(json!(1), "ping", json!({}), None);
    assert!(!text_of(&server.answer(json!(1))).contains("NOT_CONFIGURED"));
}

#[test]
fn a_workspace_that_was_replaced_is_refused() {
    let provider = Provider::start(vec![Reply::Say("x".to_owned())]);
    let mut server = serve(&provider);
    server.call(json!(1), "ping", json!({}), None);
    server.answer(json!(1));
    let old = server.home.path().join("old");
    std::fs::rename(&server.project, &old).expect("rename");
    std::fs::create_dir(&server.project).expect("mkdir");
    let project = server.project.display().to_string();
    server.call(json!(2), "delegate_to_deepseek", task(), None);
    let answer = server.answer(json!(2));
    assert_eq!(
        answer["result"]["structuredContent"]["ok"], false,
        "{project}: {answer}"
    );
}

#[test]
fn no_key_is_in_any_answer() {
    let provider = Provider::start(vec![Reply::Status(
        401,
        json!({"error": {"message": "Incorrect API key provided: sk-canary-4711", "type": "invalid_request_error"}}),
    )]);
    let mut server = Start::new()
        .args(&["--base-url", &provider.base_url, "--model", "fake-model"])
        .args(&["--key-env", "MY_KEY"])
        .env("MY_KEY", "sk-canary-4711")
        .go();
    for (id, tool) in [
        (1, "delegate_to_deepseek"),
        (2, "local_backend_status"),
        (3, "ping"),
    ] {
        let args = if id == 1 { task() } else { json!({}) };
        server.call(json!(id), tool, args, Some(json!(id)));
        let answer = server.answer(json!(id));
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
    assert!(!format!("{:?}", server.seen).contains("canary"));
}
