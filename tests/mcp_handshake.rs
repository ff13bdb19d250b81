//! The server lives through every order of first messages, says what it is,
//! and writes nothing to stdout but the protocol.

mod mcp_support;

use mcp_support::{Server, Start, text_of};
use serde_json::{Value, json};

fn discover() -> Value {
    json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.332"},
        "io.modelcontextprotocol/clientCapabilities": {}
    }})
}

#[test]
fn initialize_first() {
    let mut server = Server::start();
    let answer = server.initialize();
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["serverInfo"]["name"], "delegate");
    assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(result["capabilities"]["tools"].is_object());
    let instructions = result["instructions"].as_str().expect("instructions");
    let first: String = instructions.chars().take(512).collect();
    assert!(first.contains("delegate_to_deepseek") && first.contains("acknowledge"));
    assert!(server.tools().contains(&"ping".to_owned()));
}

#[test]
fn every_version_with_a_handshake_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut server = Server::start();
        let params = json!({
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "t", "version": "0"}
        });
        server.request(json!(1), "initialize", params);
        assert_eq!(
            server.answer(json!(1))["result"]["protocolVersion"],
            version
        );
    }
}

#[test]
fn discover_first_then_without_a_handshake() {
    let mut server = Server::start();
    server.request(
        json!("server-discover-probe-1"),
        "server/discover",
        discover(),
    );
    let answer = server.answer(json!("server-discover-probe-1"));
    assert!(
        answer["result"]["supportedVersions"]
            .as_array()
            .is_some_and(|versions| versions.contains(&json!("2026-07-28"))),
        "{answer}"
    );
    server.request(json!(2), "tools/list", discover());
    assert!(server.answer(json!(2))["result"]["tools"].is_array());
    let mut call = discover();
    call["name"] = json!("ping");
    call["arguments"] = json!({});
    server.request(json!(3), "tools/call", call);
    let answer = server.answer(json!(3));
    assert!(text_of(&answer).starts_with("pong"));
}

#[test]
fn discover_and_initialize_both_pending() {
    let mut server = Server::start();
    server.request(json!("d"), "server/discover", discover());
    server.request(
        json!(1),
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}),
    );
    assert!(server.answer(json!(1))["result"]["serverInfo"].is_object());
    if !server.seen.iter().any(|message| message["id"] == "d") {
        server.answer(json!("d"));
    }
    assert!(!server.tools().is_empty());
}

#[test]
fn odd_first_messages_do_not_end_it() {
    let mut server = Server::start();
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.cancel(json!(77));
    server.send(&json!({"jsonrpc": "2.0", "id": 5, "result": {}}));
    server.request(json!(1), "ping", json!({}));
    assert_eq!(server.answer(json!(1))["result"], json!({}));
    assert!(!server.tools().is_empty());
    server.initialize();
    assert!(!server.tools().is_empty());
}

#[test]
fn unknown_methods_are_answered_at_once() {
    let mut server = Server::start();
    for method in [
        "no/such",
        "prompts/list",
        "resources/list",
        "logging/setLevel",
        "roots/list",
    ] {
        server.request(json!(method), method, json!({}));
        let answer = server.answer(json!(method));
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    server.call(json!("t"), "no_such_tool", json!({}), None);
    assert_eq!(server.answer(json!("t"))["error"]["code"], -32602);
}

#[test]
fn a_malformed_line_is_answered_and_survived() {
    let mut server = Server::start();
    server.initialize();
    for line in ["{\"jsonrpc\":\"2.0\",\"id\":1,", "hello", "\u{0}", "{}}"] {
        server.send_raw(line);
        let answer = server.next();
        assert_eq!(answer["error"]["code"], -32700, "{answer}");
    }
    server.send_raw(r#"{"id":4,"method":"tools/list"}"#);
    let answer = server.next();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(4), &json!(-32600))
    );
    server.send_raw("");
    assert!(!server.tools().is_empty());
}

#[test]
fn tool_sets_and_name_come_from_flags_or_environment() {
    let deepseek = [
        "acknowledge_deepseek_mutations",
        "delegate_to_deepseek",
        "delegate_to_deepseek_readonly",
        "get_deepseek_recovery",
        "ping",
    ];
    let agents = [
        "delegate_to_local_agent",
        "list_local_agents",
        "local_backend_status",
    ];
    let mut server = Start::new()
        .args(&["--name", "deepseek", "--toolsets", "deepseek"])
        .go();
    assert_eq!(
        server.initialize()["result"]["serverInfo"]["name"],
        "deepseek"
    );
    assert_eq!(server.tools(), deepseek);
    let mut server = Start::new()
        .env("DELEGATE_TOOLSETS", "agents,codex,gemini,dsh,status")
        .go();
    assert_eq!(server.tools(), agents);
    // A tool that is not shown cannot be called either.
    server.call(json!(1), "ping", json!({}), None);
    assert!(server.answer(json!(1))["error"].is_object());
    // A flag goes before the environment.
    let mut server = Start::new()
        .env("DELEGATE_TOOLSETS", "agents")
        .args(&["--toolsets", "status"])
        .go();
    assert_eq!(server.tools(), ["local_backend_status"]);
}

#[test]
fn every_tool_has_schemas_and_honest_hints() {
    let mut server = Server::start();
    server.request(json!(1), "tools/list", json!({}));
    let answer = server.answer(json!(1));
    let tools = answer["result"]["tools"].as_array().expect("tools");
    let hints = |name: &str| {
        let tool = tools
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap_or_else(|| panic!("{name}"));
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["outputSchema"]["type"], "object");
        assert!(
            tool["description"]
                .as_str()
                .is_some_and(|text| text.len() > 40)
        );
        [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ]
        .map(|hint| tool["annotations"][hint].as_bool().expect("a hint"))
    };
    assert_eq!(hints("ping"), [true, false, true, false]);
    assert_eq!(hints("delegate_to_deepseek"), [false, true, false, true]);
    assert_eq!(
        hints("delegate_to_deepseek_readonly"),
        [true, false, false, true]
    );
    assert_eq!(
        hints("acknowledge_deepseek_mutations"),
        [false, true, true, false]
    );
    assert_eq!(hints("get_deepseek_recovery"), [false, false, true, false]);
    assert_eq!(hints("delegate_to_local_agent"), [false, true, false, true]);
    let model = &tools
        .iter()
        .find(|tool| tool["name"] == "delegate_to_deepseek")
        .expect("tool")["inputSchema"]["properties"]["model"];
    assert_eq!(model["enum"], json!(["flash", "pro"]));
}

#[test]
fn a_wrong_start_says_why_and_writes_nothing_to_stdout() {
    for (args, env, word) in [
        (vec!["serve", "--toolsets", "nonsense"], None, "nonsense"),
        (
            vec!["serve"],
            Some(("DELEGATE_TOOLSETS", "nonsense")),
            "DELEGATE_TOOLSETS",
        ),
        (
            vec!["serve"],
            Some(("DELEGATE_GATEWAY", "kong")),
            "DELEGATE_GATEWAY",
        ),
        (
            vec!["serve"],
            Some(("DELEGATE_GATEWAY", "bifrost")),
            "DELEGATE_BIFROST_URL",
        ),
        (vec!["serve", "--set", "max_turns"], None, "KEY=VALUE"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_delegate"))
            .args(&args)
            .env_clear()
            .env("HOME", "/nonexistent")
            .envs(env)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("runs");
        assert!(!output.status.success(), "{args:?}");
        assert!(output.stdout.is_empty());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(word), "{said}");
    }
}
