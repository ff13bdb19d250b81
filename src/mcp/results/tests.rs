use serde_json::{Value, json};

use super::*;
use crate::mcp::rooms::{PendingChange, Standing};
use crate::mcp::tests::{answered, change};
use crate::run::{BashFailure, Outcome, RunOutcome};
use crate::tools::Capability;

fn nowhere(_: &str) -> Option<String> {
    None
}

fn facts() -> DeepseekFacts {
    DeepseekFacts {
        capability: Capability::Coding,
        profile: "flash".to_owned(),
        notices: Vec::new(),
    }
}

fn deepseek_of(run: &RunOutcome) -> (String, Value) {
    split(&deepseek_result(run, &facts(), &nowhere))
}

fn agent_of(run: &RunOutcome) -> Value {
    let facts = AgentFacts {
        agent_name: "fixer".to_owned(),
        agent_source: Some("project-agent".to_owned()),
        model: "fake-model".to_owned(),
        workdir: "/w".to_owned(),
        max_turns: 50,
        notices: Vec::new(),
    };
    split(&agent_result(run, &facts, &nowhere)).1
}

fn split(result: &CallToolResult) -> (String, Value) {
    let value = serde_json::to_value(result).expect("JSON");
    (
        value["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        value["structuredContent"].clone(),
    )
}

#[test]
fn success_is_message_rule_footer_and_bash_line() {
    let mut run = answered("done");
    run.bash.calls = 2;
    run.bash.failures = vec![BashFailure {
        turn: 1,
        status: "nonzero_exit".to_owned(),
        exit_code: Some(3),
    }];
    let (text, object) = deepseek_of(&run);
    assert_eq!(
        text,
        "done\n\n---\n[deepseek-mcp] 2 turns, 1 tool calls, 59 tokens, 1.3s\n\
         [deepseek-mcp bash] {\"calls\":2,\"failures\":[{\"exit_code\":3,\"status\":\"nonzero_exit\",\"turn\":1}],\"last_status\":\"ok\"}"
    );
    assert_eq!(object["final_message"], "done");
    assert_eq!(object["turns_used"], 2);
    assert_eq!(
        object["tokens"],
        json!({"prompt": 50, "completion": 9, "total": 59})
    );
    assert_eq!(object["duration_seconds"], 1.26);
    assert_eq!(object["bash"]["failures"][0]["exit_code"], 3);
    assert_eq!(
        object["enforcement"]["guarantees"]["reads"]["strength"],
        "enforced"
    );
}

#[test]
fn no_bash_no_usage_no_answer() {
    let mut run = answered("");
    run.bash.calls = 0;
    run.usage = None;
    let (text, object) = deepseek_of(&run);
    assert_eq!(
        text,
        "(empty response)\n\n---\n[deepseek-mcp] 2 turns, 1 tool calls, 0 tokens, 1.3s"
    );
    assert_eq!(object["tokens"]["total"], 0);
    assert!(object.get("bash").is_none());
}

#[test]
fn changes_come_with_the_recovery_notice_and_warnings() {
    let mut run = answered("done");
    run.mutations = vec![change('a'), change('b')];
    run.mutations[1].warning = Some("fsync failed".to_owned());
    let (text, object) = deepseek_of(&run);
    assert!(text.starts_with("[deepseek-mcp recovery required] "));
    let (notice, rest) = text.split_once("\n\n").expect("a notice");
    assert!(notice.contains(&"a".repeat(32)) && notice.contains(&"b".repeat(32)));
    let order: Vec<_> = [
        "get_deepseek_recovery",
        "check each",
        "acknowledge_deepseek_mutations",
    ]
    .iter()
    .map(|word| notice.find(word))
    .collect();
    assert!(order.iter().all(Option::is_some) && order.is_sorted());
    assert!(rest.starts_with("[deepseek-mcp transaction safety] "));
    assert!(rest.contains("fsync failed"));
    assert!(
        object["final_message"]
            .as_str()
            .is_some_and(|message| text.starts_with(message))
    );
}

#[test]
fn a_failure_after_a_change_says_do_not_retry_and_the_cause() {
    let mut run = answered("half");
    run.outcome = Outcome::Failed;
    run.error_class = Some(crate::provider::ErrorClass::BadRequest);
    run.error_text = Some("status 400".to_owned());
    let (text, object) = deepseek_of(&run);
    assert_eq!(text, "ERROR: DeepSeek agent loop failed: status 400");
    assert_eq!(object["error_code"], "bad_request");
    run.mutations = vec![change('a')];
    let (text, object) = deepseek_of(&run);
    for part in [
        "ERROR:",
        &"a".repeat(32),
        "committed",
        "DO NOT RETRY",
        "status 400",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert_eq!(object["error"], text);
    assert_eq!(object["ok"], false);
}

#[test]
fn an_agent_result_has_every_field_of_the_interface() {
    let object = agent_of(&answered("done"));
    for field in [
        "success",
        "final_response",
        "agent_name",
        "agent_source",
        "model",
        "response_model",
        "fallback_note",
        "routing_info",
        "terminal_text",
        "workdir",
        "turns",
        "max_turns",
        "tool_calls",
        "malformed_calls",
        "deduped_calls",
        "evicted_tool_results",
        "nudges",
        "nudge_reply",
        "resumed_after_nudge",
        "elapsed_s",
        "tokens_in",
        "tokens_out",
        "cache_read_tokens",
        "cache_creation_tokens",
        "cache_hit_pct",
        "stop_reason",
        "hit_turn_limit",
        "incomplete",
        "bash_calls",
        "bash_failures",
        "last_bash_exit",
    ] {
        assert!(object.get(field).is_some(), "{field}");
    }
    assert_eq!(object["tokens_in"], 30);
    assert_eq!(object["cache_hit_pct"], 40.0);
    assert_eq!(object["elapsed_s"], 1.3);
    assert_eq!(object["success"], true);
    assert_eq!(object["fallback_note"], Value::Null);
}

#[test]
fn another_model_and_a_turn_limit_are_said() {
    let mut run = answered("so far");
    run.model = Some("glm-x".to_owned());
    run.outcome = Outcome::Failed;
    run.error_class = Some(crate::provider::ErrorClass::TurnLimit);
    run.facts.stop_reason = Some("turn_limit_pending_tools".to_owned());
    let object = agent_of(&run);
    assert_eq!(
        object["fallback_note"],
        "answered_by: glm-x (requested fake-model)"
    );
    assert_eq!(object["stop_reason"], "turn_limit_pending_tools");
    assert_eq!(object["hit_turn_limit"], true);
    assert_eq!(object["incomplete"], true);
    assert_eq!(object["success"], false);
    assert_eq!(object["final_response"], "so far");
    assert_eq!(object["error_code"], "turn_limit");
}

#[test]
fn a_result_stays_small_whatever_the_run_did() {
    let mut run = answered(&"é\"\n".repeat(50_000));
    run.error_text = Some("\u{1}".repeat(100_000));
    run.mutations = (0..128)
        .map(|number| {
            let mut change = change('a');
            change.transaction_id = format!("{number:032x}");
            change.path = "some/long/path/".repeat(8);
            change.warning = Some("warning ".repeat(500));
            change.diff = Some("+\t\"x\"\n".repeat(10_000));
            change
        })
        .collect();
    for outcome in [Outcome::Completed, Outcome::Failed] {
        run.outcome = outcome;
        let results = [
            deepseek_result(&run, &facts(), &nowhere),
            agent_result(
                &run,
                &AgentFacts {
                    agent_name: "a".to_owned(),
                    agent_source: None,
                    model: "m".to_owned(),
                    workdir: "/w".to_owned(),
                    max_turns: 1,
                    notices: Vec::new(),
                },
                &nowhere,
            ),
        ];
        for result in results {
            let (text, object) = split(&result);
            assert!(object["left_out"].as_array().is_some_and(|l| !l.is_empty()));
            assert!(size(&result) <= LIMIT, "{}", size(&result));
            // Without its ID a change cannot be acknowledged.
            if text.starts_with('[') || text.starts_with("ERROR") {
                assert!(text.contains(&format!("{:032x}", 127)));
            }
        }
    }
}

#[test]
fn ping_says_configured_or_why_not() {
    let home = std::path::PathBuf::from("/home/u");
    let standing = |setup| Standing {
        mode: "auto".to_owned(),
        setup,
    };
    let long = home.join("x".repeat(80));
    let (text, object) = split(&ping(&standing(Ok((long, "m".to_owned()))), Some(&home)));
    assert!(text.starts_with("pong deepseek-mcp"));
    assert!(text.contains("mode=auto workspace=~/xxx") && text.contains('…'));
    assert!(!text.contains("NOT_CONFIGURED"));
    assert_eq!(object["configured"], true);
    let (text, object) = split(&ping(&standing(Err("no key".to_owned())), None));
    assert!(text.contains("NOT_CONFIGURED (no key)"));
    assert_eq!(object["reason"], "no key");
}

#[test]
fn recovery_lists_and_counts() {
    let (text, object) = split(&recovery(&[PendingChange {
        transaction_id: "a".repeat(32),
        tool: "Edit".to_owned(),
        path: "calc.sh".to_owned(),
        sha256: Some("0".repeat(64)),
        status: "committed".to_owned(),
        warnings: Vec::new(),
        order: 1,
        at_ms: 0,
        run_id: "01RUN".to_owned(),
        sha256_before: None,
    }]));
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), object);
    assert_eq!(object["ok"], true);
    assert_eq!(object["count"], 1);
    assert_eq!(object["pending"][0]["status"], "committed");
}
