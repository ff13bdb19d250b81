//! The server ends with its host, in order and with status 0, and starts in
//! any environment.

mod mcp_support;

use std::time::Duration;

use mcp_support::{Server, Start, text_of};
use rustix::process::Signal;
use serde_json::json;

const AT_ONCE: Duration = Duration::from_secs(2);

#[test]
fn the_end_of_the_input_is_the_end() {
    let mut server = Server::start();
    server.initialize();
    server.close_input();
    assert_eq!(server.wait(AT_ONCE).code(), Some(0));
    assert!(server.drain().is_empty());
}

#[test]
fn so_it_is_before_the_first_message() {
    let mut server = Server::start();
    server.close_input();
    assert_eq!(server.wait(AT_ONCE).code(), Some(0));
}

#[test]
fn requests_before_the_end_are_answered() {
    let mut server = Server::start();
    server.request(json!(1), "tools/list", json!({}));
    server.call(json!(2), "ping", json!({}), None);
    server.close_input();
    let answers = server.drain();
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(server.wait(AT_ONCE).code(), Some(0));
}

#[test]
fn signals_end_it_with_status_0() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut server = Server::start();
        server.initialize();
        server.signal(signal);
        assert_eq!(server.wait(AT_ONCE).code(), Some(0), "{signal:?}");
        assert!(server.drain().is_empty());
    }
}

#[test]
fn a_host_that_stops_reading_does_not_keep_it() {
    let mut server = Server::start();
    server.initialize();
    server.signal(Signal::TERM);
    server.close_input();
    assert_eq!(server.wait(AT_ONCE).code(), Some(0));
}

#[test]
fn with_an_empty_environment_it_starts_and_says_what_is_missing() {
    let mut server = Start::new().bare().go();
    server.initialize();
    assert_eq!(server.tools().len(), 8);
    server.call(json!(1), "ping", json!({}), None);
    let answer = server.answer(json!(1));
    assert!(text_of(&answer).contains("pong"));
    server.call(json!(2), "delegate_to_deepseek", json!({"task": "t"}), None);
    let answer = server.answer(json!(2));
    // Which of its needs is named first depends on the user database.
    assert!(text_of(&answer).starts_with("ERROR: "), "{answer}");
    server.close_input();
    assert_eq!(server.wait(AT_ONCE).code(), Some(0));
}

#[test]
fn with_a_huge_environment_it_starts_and_shows_none_of_it() {
    let mut start = Start::new();
    for number in 0..300 {
        start = start.env(
            &format!("NOISE_{number}"),
            &format!("canary-{number}-{}", "x".repeat(2_000)),
        );
    }
    let start = start
        .env("ANTHROPIC_API_KEY", "canary-key-anthropic")
        .env("CLAUDECODE", "1")
        .env("DEEPSEEK_API_KEY", "canary-key-deepseek")
        .env("RUST_LOG", "trace");
    let mut server = start.go();
    server.initialize();
    assert_eq!(server.tools().len(), 8);
    server.call(json!(1), "ping", json!({}), None);
    let answer = server.answer(json!(1));
    assert!(!answer.to_string().contains("canary"));
    assert!(!text_of(&answer).contains("NOT_CONFIGURED"), "{answer}");
}

#[test]
fn the_mode_is_exact() {
    let mut server = Start::new().env("DEEPSEEK_MODE", "off").go();
    server.call(json!(1), "delegate_to_deepseek", json!({"task": "t"}), None);
    let answer = server.answer(json!(1));
    assert!(text_of(&answer).starts_with("DeepSeek delegation is disabled"));
    assert_eq!(
        answer["result"]["structuredContent"]["error_code"],
        "mode_off"
    );
    server.call(json!(2), "get_deepseek_recovery", json!({}), None);
    let answer = server.answer(json!(2));
    assert_eq!(
        answer["result"]["structuredContent"]["ok"], true,
        "{answer}"
    );
    assert_eq!(answer["result"]["structuredContent"]["count"], 0);

    let mut server = Start::new().env("DEEPSEEK_MODE", "OFF").go();
    server.call(json!(1), "ping", json!({}), None);
    assert!(text_of(&server.answer(json!(1))).contains("mode=invalid"));
    server.call(json!(2), "delegate_to_deepseek", json!({"task": "t"}), None);
    let answer = server.answer(json!(2));
    assert!(text_of(&answer).contains("DEEPSEEK_MODE"), "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["ok"], false);
}

#[test]
fn without_a_key_it_lists_pings_and_recovers() {
    let mut server = Server::start();
    server.call(json!(1), "ping", json!({}), None);
    let answer = server.answer(json!(1));
    let text = text_of(&answer).to_owned();
    assert!(
        text.contains("pong") && text.contains("NOT_CONFIGURED"),
        "{text}"
    );
    server.call(json!(2), "get_deepseek_recovery", json!({}), None);
    let answer = server.answer(json!(2));
    assert_eq!(
        answer["result"]["structuredContent"]["ok"], true,
        "{answer}"
    );
    server.call(
        json!(3),
        "acknowledge_deepseek_mutations",
        json!({"transaction_ids": ["zz"]}),
        None,
    );
    let answer = server.answer(json!(3));
    assert_eq!(answer["result"]["structuredContent"]["ok"], false);
    // Nothing of this opened a database.
    assert!(
        !server
            .home
            .path()
            .join(".local/state/delegate/delegate.db")
            .exists()
    );
}
