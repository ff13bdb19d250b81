//! The harness bites: a good loop passes, the same loop with one fault does not.

mod replay;

use std::collections::BTreeMap;

use replay::server::Server;
use replay::tiny::{self, Fault};
use replay::{Case, judge};
use serde_json::{Value, json};

fn problems(case: &Case, fault: Fault) -> Vec<String> {
    let server = Server::start(case);
    let folder = tempfile::tempdir().expect("a folder");
    case.fill(folder.path());
    let actual = tiny::play(case, server.port, folder.path(), fault);
    judge::judge(&case.expect, &server.seen(), &actual, folder.path())
}

#[test]
fn the_good_loop_passes_what_needs_no_tool_of_its_own() {
    // o20 needs the real Edit, o21 a jail around Bash.
    for n in (1..=25).filter(|n| !matches!(n, 20 | 21)) {
        let case = Case::load(&format!("o{n:02}"));
        let found = problems(&case, Fault::None);
        assert!(found.is_empty(), "{}:\n{}", case.name, found.join("\n"));
    }
}

#[test]
fn each_fault_of_the_loop_is_seen() {
    for (prefix, fault) in [
        ("o01", Fault::HideExecution),
        ("o01", Fault::SwapResults),
        ("o06", Fault::TellKey),
        ("o10", Fault::ForgetThinking),
        ("o18", Fault::RunMalformed),
        ("o22", Fault::HideFailure),
        ("o22", Fault::SwapResults),
        ("o23", Fault::ForgetThinking),
    ] {
        let case = Case::load(prefix);
        assert!(
            !problems(&case, fault).is_empty(),
            "{prefix} with {fault:?} passed"
        );
    }
}

/// A case whose replies say something else than its judge expects.
fn mutated(prefix: &str, from: &str, to: &str) -> Case {
    let mut case = Case::load(prefix);
    let mut changed = 0;
    for answer in &mut case.transport {
        for chunk in &mut answer.chunks {
            if let Value::String(text) = chunk {
                changed += text.matches(from).count();
                *text = text.replace(from, to);
            }
        }
    }
    assert!(changed > 0, "{from:?} is not in {prefix}");
    case
}

#[test]
fn each_mutated_reply_is_seen() {
    for (prefix, from, to) in [
        ("o01", "b.txt", "a.txt"),
        ("o01", "All done.", "All wrong."),
        ("o02", "call_2", "call_3"),
        ("o03", "ho hi-", "ho no-"),
        ("o10", "Then stop.", "Then go."),
        ("o11", "\"completion_tokens\":3", "\"completion_tokens\":4"),
        ("o12", "one", "uno"),
        ("o15", "ran >>", "ran2 >>"),
        ("o23", "EqoBCkgIARABGAIiQL3+sig/AAA=", "AAAA"),
        ("o25", "hello", "hallo"),
        (
            "o13",
            "Rate limit reached for requests",
            "insufficient_quota",
        ),
    ] {
        let found = problems(&mutated(prefix, from, to), Fault::None);
        assert!(
            !found.is_empty(),
            "{prefix} with {to:?} for {from:?} passed"
        );
    }
}

/// Posts bodies as they are and gives the violations of the last.
fn violations(format: &str, bodies: &[&Value], status: u16) -> Vec<String> {
    let case: Case = serde_json::from_value(json!({
        "name": "x", "format": format, "driver": "any", "task": "t", "expect": {}, "repeat_last": true,
        "transport": [{"status": status, "chunks": ["{}"], "headers": BTreeMap::<String, Value>::new()}],
    }))
    .expect("a case");
    let server = Server::start(&case);
    let path = if format == "openai" {
        "chat/completions"
    } else {
        "messages"
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        for body in bodies {
            let client = reqwest::Client::builder()
                .no_proxy()
                .build()
                .expect("a client");
            let url = format!("http://127.0.0.1:{}/v1/{path}", server.port);
            let sent = client
                .post(url)
                .header("x-api-key", replay::KEY)
                .body(body.to_string())
                .send()
                .await;
            sent.expect("an answer").bytes().await.expect("a body");
        }
    });
    server.seen().last().expect("a request").violations.clone()
}

fn body(messages: Value) -> Value {
    json!({"model": replay::MODEL, "stream": true, "tools": [{}], "messages": messages})
}

fn openai_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]})
}

#[test]
fn the_rules_for_every_request_bite() {
    let user = json!({"role": "user", "content": "hi"});
    let answer = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
    let good = body(json!([user, openai_call("a", "Read", "{}"), answer("a")]));
    assert_eq!(violations("openai", &[&good], 200), [""; 0]);
    let mut no_stream = good.clone();
    no_stream["stream"] = json!(false);
    let mut no_tools = good.clone();
    no_tools["tools"] = json!([]);
    let table = [
        ("G0", no_stream),
        ("G1", no_tools),
        (
            "G2",
            body(json!([user, openai_call("", "Read", "{}"), answer("")])),
        ),
        (
            "G2",
            body(json!([
                user,
                openai_call("a", "Read", "{}"),
                answer("a"),
                openai_call("a", "Read", "{}"),
                answer("a")
            ])),
        ),
        (
            "G3",
            body(json!([user, openai_call("a", "Read", "{}"), user])),
        ),
        ("G3", body(json!([user, answer("a")]))),
        (
            "G4",
            body(json!([user, openai_call("a", "Read", "{\"x"), answer("a")])),
        ),
        (
            "G4",
            body(json!([user, openai_call("a", "a b", "{}"), answer("a")])),
        ),
        ("G5", body(json!([{"role": "user", "content": "\u{fffd}"}]))),
        (
            "G6",
            body(json!([user, {"role": "assistant", "content": ""}])),
        ),
        (
            "G7",
            body(json!([user, {"role": "system", "content": "late"}])),
        ),
        (
            "G8",
            body(json!([{"role": "user", "content": replay::KEY}])),
        ),
    ];
    for (rule, body) in &table {
        let found = violations("openai", &[body], 200);
        assert!(
            found.iter().any(|v| v.starts_with(rule)),
            "{rule}: {found:?}"
        );
    }
    let again = violations("openai", &[&good, &good], 400);
    assert!(again.iter().any(|v| v.starts_with("G9")), "{again:?}");
    assert_eq!(violations("openai", &[&good, &good], 500), [""; 0]);
}

#[test]
fn the_rules_of_the_anthropic_wire_bite() {
    let user = json!({"role": "user", "content": "hi"});
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}]});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "x"});
    let text = json!({"type": "text", "text": "x"});
    let good = body(json!([user, call, {"role": "user", "content": [result, text]}]));
    assert_eq!(violations("anthropic", &[&good], 200), [""; 0]);
    let table = [
        (
            "G3",
            body(json!([user, call, {"role": "user", "content": [text, result]}])),
        ),
        (
            "G6",
            body(
                json!([user, call, {"role": "user", "content": [result, {"type": "text", "text": ""}]}]),
            ),
        ),
        ("G7", body(json!([user, user]))),
        (
            "G7",
            body(json!([call, {"role": "user", "content": [result]}])),
        ),
    ];
    for (rule, body) in &table {
        let found = violations("anthropic", &[body], 200);
        assert!(
            found.iter().any(|v| v.starts_with(rule)),
            "{rule}: {found:?}"
        );
    }
}
