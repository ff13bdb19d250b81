use serde_json::{Map, Value, json};

use super::*;
use crate::provider::{TurnReply, Usage};
use crate::run::rules::{Budgets, Done, Planned, Unfit};
use crate::tools::{ToolCall, ToolOutput};

/// Takes every canonical name as it is; `Write` needs `content`.
struct Fake;

impl Names for Fake {
    fn canonical(&self, call: &ToolUse) -> Result<ToolCall, Unfit> {
        let tool = ["Read", "Write", "Edit", "Bash", "Glob", "Grep"]
            .into_iter()
            .find(|tool| tool.eq_ignore_ascii_case(call.name.trim()));
        match tool {
            None => Err(Unfit {
                text: format!(
                    "Error: unknown tool {}. Tools: Read, Write, Bash",
                    call.name
                ),
                refused: (call.name == "NotebookEdit").then(|| "reads only".to_owned()),
            }),
            Some("Write") if !call.input.contains_key("content") => Err(Unfit {
                text: "Error: Write needs file_path, content".to_owned(),
                refused: None,
            }),
            Some(tool) => Ok(ToolCall {
                tool,
                args: call.input.clone(),
                renamed: tool != call.name,
                alias: None,
            }),
        }
    }
}

fn rules() -> Rules {
    Rules {
        max_turns: 12,
        max_output_tokens: 4_096,
        max_nudges: 1,
        keep_tool_results: 6,
        report_only: false,
        budgets: None,
    }
}

fn start(rules: Rules) -> Loop {
    let mut state = Loop::new(rules, "task".to_owned(), &[]);
    assert_eq!(state.step(Event::Start, &Fake), Action::Ask { turn: 1 });
    state
}

fn args(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("object")
}

fn tool(id: &str, name: &str, input: Value) -> Block {
    Block::ToolUse(ToolUse {
        id: id.to_owned(),
        name: name.to_owned(),
        input: args(input),
        malformed: None,
    })
}

fn reply(blocks: Vec<Block>) -> TurnReply {
    let calls = blocks.iter().any(|b| matches!(b, Block::ToolUse(_)));
    TurnReply {
        message: Message {
            role: Role::Assistant,
            blocks,
            answered_by: None,
        },
        stop: if calls { Stop::ToolUse } else { Stop::EndTurn },
        usage: None,
        model: None,
        flags: Vec::new(),
    }
}

fn says(text: &str) -> TurnReply {
    reply(vec![Block::Text {
        text: text.to_owned(),
    }])
}

fn reads(n: u32) -> TurnReply {
    reply(vec![tool(
        &format!("c{n}"),
        "Read",
        json!({"file_path": format!("f{n}")}),
    )])
}

fn output(ok: bool, text: &str) -> ToolOutput {
    ToolOutput {
        ok,
        text: text.to_owned(),
        ..ToolOutput::default()
    }
}

fn all_ok(planned: &[Planned]) -> Event {
    Event::Results(
        planned
            .iter()
            .map(|planned| Done {
                index: planned.index,
                output: output(true, "fine"),
            })
            .collect(),
    )
}

/// Gives the reply and lets whatever it asks for succeed.
fn go(state: &mut Loop, reply: TurnReply) -> Action {
    match state.step(Event::Reply(reply), &Fake) {
        Action::Call(planned) => state.step(all_ok(&planned), &Fake),
        other => other,
    }
}

fn end(action: Action) -> End {
    match action {
        Action::End(end) => end,
        other => panic!("goes on: {other:?}"),
    }
}

fn planned(action: Action) -> Vec<Planned> {
    match action {
        Action::Call(planned) => planned,
        other => panic!("no calls: {other:?}"),
    }
}

/// The results of the last message, as (id, text, is_error).
fn results(state: &Loop) -> Vec<(String, String, bool)> {
    state
        .messages()
        .last()
        .expect("a message")
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolResult(result) => Some((
                result.tool_use_id.clone(),
                result.content.clone(),
                result.is_error,
            )),
            _ => None,
        })
        .collect()
}

fn error(class: ErrorClass) -> Event {
    Event::ModelFailed(ProviderError {
        class,
        text: "said the server".to_owned(),
        status: Some(400),
        attempts: 1,
    })
}

#[test]
fn an_answer_without_calls_ends_the_run() {
    let mut state = start(rules());
    let end = end(go(&mut state, says("  All done.\n")));
    assert_eq!(end.outcome, Outcome::Completed);
    assert_eq!(end.final_text.as_deref(), Some("All done."));
    assert!(state.facts.terminal_text);
}

#[test]
fn calls_run_and_each_has_one_result_in_the_order_of_the_calls() {
    let mut state = start(rules());
    let calls = planned(state.step(
        Event::Reply(reply(vec![
            tool("a", "Read", json!({"file_path": "x"})),
            tool("b", "Nope", json!({})),
            tool("c", " bash ", json!({"command": "ls"})),
            tool("d", "Write", json!({"file_path": "x"})),
        ])),
        &Fake,
    ));
    let run: Vec<_> = calls
        .iter()
        .map(|c| (c.index, c.call.tool, c.parallel))
        .collect();
    assert_eq!(run, [(0, "Read", true), (2, "Bash", false)]);
    let done = vec![
        Done {
            index: 2,
            output: output(false, ""),
        },
        Done {
            index: 0,
            output: output(true, "alpha"),
        },
    ];
    assert_eq!(
        state.step(Event::Results(done), &Fake),
        Action::Ask { turn: 2 }
    );
    let results = results(&state);
    let short: Vec<_> = results
        .iter()
        .map(|(id, text, err)| (id.as_str(), text.as_str(), *err))
        .collect();
    assert_eq!(short[0], ("a", "alpha", false));
    assert_eq!(short[1].0, "b");
    assert!(short[1].1.contains("Read, Write, Bash") && short[1].2);
    assert_eq!(short[2], ("c", "(no output)", true));
    assert!(short[3].1.contains("needs") && short[3].2);
    let ran: Vec<_> = state
        .record
        .executions
        .iter()
        .map(|e| (e.tool.as_str(), e.ok))
        .collect();
    assert_eq!(ran, [("Read", true), ("Bash", false)]);
    assert_eq!(state.facts.malformed_calls, 2);
    assert_eq!(state.record.flags, ["tool_renamed"]);
}

#[test]
fn a_tool_outside_the_capability_is_a_refusal_and_no_execution() {
    let mut state = start(rules());
    go(
        &mut state,
        reply(vec![tool("a", "NotebookEdit", json!({}))]),
    );
    assert!(state.record.executions.is_empty());
    let refusal = &state.record.refusals[0];
    assert_eq!(
        (refusal.tool.as_str(), refusal.by.as_str()),
        ("NotebookEdit", "tool")
    );
}

#[test]
fn a_call_that_was_cut_off_is_told_so_and_not_run() {
    let mut state = start(rules());
    let mut cut = reply(vec![
        tool("t0", "Read", json!({"file_path": "a"})),
        tool(
            "t1",
            "Write",
            json!({"file_path": "t.txt", "content": "whole?"}),
        ),
    ]);
    cut.stop = Stop::MaxTokens;
    let calls = planned(state.step(Event::Reply(cut), &Fake));
    assert_eq!(calls.len(), 1, "only what was whole for certain");
    state.step(all_ok(&calls), &Fake);
    let results = results(&state);
    assert!(
        results[1].1.contains("cut off") && results[1].2,
        "{results:?}"
    );
    assert_eq!(
        go(&mut state, says("ok")),
        Action::End(End {
            outcome: Outcome::Completed,
            class: None,
            text: None,
            final_text: Some("ok".into()),
        })
    );
}

#[test]
fn a_bound_reached_counts_as_cut_whatever_the_server_says() {
    let mut state = start(rules());
    let mut cut = reply(vec![tool(
        "t",
        "Write",
        json!({"file_path": "a", "content": ""}),
    )]);
    cut.usage = Some(Usage {
        output_tokens: 4_096,
        ..Usage::default()
    });
    assert_eq!(
        state.step(Event::Reply(cut), &Fake),
        Action::Ask { turn: 2 }
    );
    assert!(results(&state)[0].1.contains("cut off"));
}

#[test]
fn arguments_that_do_not_parse_are_answered_with_the_reason() {
    let mut state = start(rules());
    let mut bad = reply(vec![tool("t", "Write", json!({}))]);
    if let Block::ToolUse(call) = &mut bad.message.blocks[0] {
        call.malformed = Some("the arguments are not JSON.".to_owned());
    }
    assert_eq!(
        state.step(Event::Reply(bad), &Fake),
        Action::Ask { turn: 2 }
    );
    let results = results(&state);
    assert!(
        results[0].1.contains("the arguments are not JSON."),
        "{results:?}"
    );
    assert_eq!(state.facts.malformed_calls, 1);
}

#[test]
fn three_cut_answers_in_a_row_end_the_run() {
    let mut state = start(rules());
    for n in 1..=3 {
        let mut cut = reply(vec![tool(&format!("t{n}"), "Write", json!({"n": n}))]);
        cut.stop = Stop::MaxTokens;
        let action = state.step(Event::Reply(cut), &Fake);
        if n < 3 {
            assert_eq!(action, Action::Ask { turn: n + 1 });
        } else {
            assert_eq!(end(action).class, Some(ErrorClass::OutputTruncated));
        }
    }
}

#[test]
fn a_cut_answer_without_calls_fails_with_what_there_is() {
    for (text, kept) in [("Half an ans", Some("Half an ans")), ("", None)] {
        let mut state = start(rules());
        let mut cut = if text.is_empty() {
            reply(vec![])
        } else {
            says(text)
        };
        cut.stop = Stop::MaxTokens;
        let end = end(go(&mut state, cut));
        assert_eq!(end.class, Some(ErrorClass::OutputTruncated));
        assert_eq!(end.final_text.as_deref(), kept);
        assert!(
            end.text
                .is_some_and(|text| text.contains("max_output_tokens"))
        );
    }
}

#[test]
fn the_last_allowed_answer_runs_no_tools() {
    let mut state = start(Rules {
        max_turns: 3,
        ..rules()
    });
    assert_eq!(go(&mut state, reads(1)), Action::Ask { turn: 2 });
    let mut second = reads(2);
    second.message.blocks.insert(
        0,
        Block::Text {
            text: "Half way.".into(),
        },
    );
    assert_eq!(go(&mut state, second), Action::Ask { turn: 3 });
    let end = end(state.step(Event::Reply(reads(3)), &Fake));
    assert_eq!(end.class, Some(ErrorClass::TurnLimit));
    assert!(
        end.text
            .is_some_and(|text| text.contains("max_turns (3)") && text.contains("Read"))
    );
    assert_eq!(end.final_text.as_deref(), Some("Half way."));
    assert_eq!(state.record.executions.len(), 2);
    assert_eq!(
        state.facts.stop_reason.as_deref(),
        Some("turn_limit_pending_tools")
    );
}

#[test]
fn the_countdown_stands_inside_the_last_result() {
    let mut state = start(Rules {
        max_turns: 6,
        ..rules()
    });
    let mut seen = Vec::new();
    for n in 1..=5 {
        go(&mut state, reads(n));
        let text = results(&state)[0].1.clone();
        seen.push(
            ["3 turns left", "2 turns left", "1 turn left"]
                .iter()
                .position(|t| text.contains(t)),
        );
        assert!(text.starts_with("fine"));
    }
    assert_eq!(seen, [None, None, Some(0), Some(1), Some(2)]);
}

#[test]
fn an_empty_answer_is_asked_again_once_and_leaves_no_empty_message() {
    let mut state = start(rules());
    go(&mut state, reads(1));
    let empty = || reply(vec![]);
    assert_eq!(go(&mut state, empty()), Action::Ask { turn: 3 });
    let last = state.messages().last().expect("message");
    assert!(matches!(&last.blocks[0], Block::ToolResult(_)));
    assert!(matches!(&last.blocks[1], Block::Text { text } if text.contains("empty")));
    assert_eq!(state.messages().len(), 3);
    let end = end(go(&mut state, empty()));
    assert_eq!(end.class, Some(ErrorClass::EmptyResponse));
    assert_eq!(state.facts.nudges, 1);
    // The twin: an answer after the nudge completes.
    let mut state = start(rules());
    go(&mut state, empty());
    assert_eq!(
        super::tests::end(go(&mut state, says("Here."))).outcome,
        Outcome::Completed
    );
}

#[test]
fn a_call_inside_the_reasoning_or_as_text_is_told_apart_and_never_the_answer() {
    let mut state = start(rules());
    let hidden = reply(vec![Block::Thinking {
        text: "<tool_call>{}".into(),
        signature: None,
        extra: Map::new(),
    }]);
    go(&mut state, hidden);
    assert!(
        state
            .messages()
            .last()
            .expect("m")
            .text()
            .contains("inside your reasoning")
    );

    let mut state = start(rules());
    assert_eq!(
        go(&mut state, says("<tool_call>{\"name\":")),
        Action::Ask { turn: 2 }
    );
    let end = end(go(&mut state, says("<tool_call>{\"name\":")));
    assert_eq!(
        (end.class, end.final_text),
        (Some(ErrorClass::EmptyResponse), None)
    );
}

#[test]
fn an_announcement_is_asked_for_the_work_and_a_restatement_does_not_replace_it() {
    let mut state = start(rules());
    assert_eq!(
        go(&mut state, says("I'll run the tests now.")),
        Action::Ask { turn: 2 }
    );
    assert_eq!(go(&mut state, reads(1)), Action::Ask { turn: 3 });
    assert!(state.facts.resumed_after_nudge);
    assert_eq!(
        end(go(&mut state, says("All done."))).final_text.as_deref(),
        Some("All done.")
    );

    let mut state = start(rules());
    go(&mut state, says("Fixed. Now I'll stop."));
    let end = end(go(&mut state, says("It is done.")));
    assert_eq!(end.final_text.as_deref(), Some("Fixed. Now I'll stop."));
    assert_eq!(state.facts.nudge_reply.as_deref(), Some("It is done."));
    assert!(!state.facts.terminal_text);

    let mut state = start(Rules {
        max_nudges: 0,
        ..rules()
    });
    assert_eq!(
        super::tests::end(go(&mut state, says("I'll run it."))).outcome,
        Outcome::Completed
    );
}

#[test]
fn a_look_up_is_not_made_twice_unless_something_ran_since() {
    let mut state = start(rules());
    let read = |id: &str| reply(vec![tool(id, "Read", json!({"file_path": "a"}))]);
    go(&mut state, read("c1"));
    // The same again: not run, and says where the answer is.
    assert_eq!(
        state.step(Event::Reply(read("c2")), &Fake),
        Action::Ask { turn: 3 }
    );
    let (_, text, is_error) = results(&state).remove(0);
    assert!(text.contains("turn 1") && !is_error, "{text}");
    assert_eq!(state.facts.deduped_calls, 1);
    assert_eq!(state.record.executions.len(), 1);
    // A write, then the same: runs.
    go(
        &mut state,
        reply(vec![tool(
            "w",
            "Write",
            json!({"file_path": "a", "content": "x"}),
        )]),
    );
    planned(state.step(Event::Reply(read("c3")), &Fake));
}

#[test]
fn a_failed_look_up_and_a_command_run_again() {
    let mut state = start(rules());
    let read = |id: &str| reply(vec![tool(id, "Read", json!({"file_path": "a"}))]);
    let calls = planned(state.step(Event::Reply(read("c1")), &Fake));
    let failed = vec![Done {
        index: calls[0].index,
        output: output(false, "Error: no such file"),
    }];
    state.step(Event::Results(failed), &Fake);
    planned(state.step(Event::Reply(read("c2")), &Fake));

    let mut state = start(rules());
    let test = |id: &str| reply(vec![tool(id, "Bash", json!({"command": "make test"}))]);
    go(&mut state, test("c1"));
    planned(state.step(Event::Reply(test("c2")), &Fake));
}

#[test]
fn a_write_and_a_look_in_one_answer_keep_their_order() {
    let mut state = start(rules());
    go(
        &mut state,
        reply(vec![tool("r0", "Read", json!({"file_path": "a"}))]),
    );
    let calls = planned(state.step(
        Event::Reply(reply(vec![
            tool("w", "Write", json!({"file_path": "a", "content": "x"})),
            tool("r1", "Read", json!({"file_path": "a"})),
        ])),
        &Fake,
    ));
    assert_eq!(
        calls.iter().map(|c| c.call.tool).collect::<Vec<_>>(),
        ["Write", "Read"]
    );
    assert!(!calls[0].parallel && calls[1].parallel);
}

#[test]
fn round_and_round_is_warned_of_and_then_stopped() {
    let mut state = start(rules());
    for n in 1..=5u32 {
        let same = reply(vec![tool(
            &format!("b{n}"),
            "Bash",
            json!({"command": "x"}),
        )]);
        let action = go(&mut state, same);
        match n {
            1 | 2 => assert!(!results(&state)[0].1.contains("in a row")),
            3 | 4 => assert!(
                results(&state)[0]
                    .1
                    .contains(&format!("{n} times in a row"))
            ),
            _ => assert_eq!(end(action).class, Some(ErrorClass::LoopDetected)),
        }
    }
    assert_eq!(state.record.executions.len(), 4);
}

#[test]
fn an_overflow_shrinks_once_and_then_fails() {
    let mut state = start(Rules {
        max_output_tokens: 16_384,
        ..rules()
    });
    let calls = planned(state.step(Event::Reply(reads(1)), &Fake));
    let big = vec![Done {
        index: calls[0].index,
        output: output(true, &"x".repeat(50_000)),
    }];
    state.step(Event::Results(big), &Fake);
    let before = state.request_bytes();
    let again = state.step(error(ErrorClass::ContextOverflow), &Fake);
    assert_eq!(again, Action::Ask { turn: 2 }, "the same turn");
    assert!(state.request_bytes() < before / 2);
    assert_eq!(state.max_output_tokens(), 4_096);
    // What was cut may be read again.
    let end_ = end(state.step(error(ErrorClass::ContextOverflow), &Fake));
    assert_eq!(end_.class, Some(ErrorClass::ContextOverflow));
    // Nothing to shrink: fails at once.
    let mut state = start(rules());
    let end_ = end(state.step(error(ErrorClass::ContextOverflow), &Fake));
    assert_eq!(end_.text.as_deref(), Some("said the server"));
}

#[test]
fn a_failed_model_ends_the_run_with_its_class_and_words() {
    for class in [ErrorClass::Auth, ErrorClass::Quota, ErrorClass::Protocol] {
        let mut state = start(rules());
        let end = end(state.step(error(class), &Fake));
        assert_eq!((end.outcome, end.class), (Outcome::Failed, Some(class)));
        assert_eq!(end.text.as_deref(), Some("said the server"));
    }
}

#[test]
fn cancelling_keeps_what_had_run() {
    let mut state = start(rules());
    let calls = planned(state.step(Event::Reply(reads(1)), &Fake));
    let done = vec![Done {
        index: calls[0].index,
        output: output(false, "stopped"),
    }];
    let end = end(state.step(Event::Cancelled(done), &Fake));
    assert_eq!(end.outcome, Outcome::Cancelled);
    assert_eq!(state.record.executions.len(), 1);
}

#[test]
fn the_deepseek_budgets_refuse_the_whole_batch() {
    let budgets = Some(Budgets::DEEPSEEK);
    let batch = |n: usize, tag: u32| {
        reply(
            (0..n)
                .map(|i| {
                    tool(
                        &format!("c{tag}-{i}"),
                        "Read",
                        json!({"file_path": format!("{tag}/{i}")}),
                    )
                })
                .collect(),
        )
    };
    let mut state = start(Rules { budgets, ..rules() });
    let end_ = end(state.step(Event::Reply(batch(33, 0)), &Fake));
    assert_eq!(end_.class, Some(ErrorClass::Budget));
    assert!(state.record.executions.is_empty());
    let mut state = start(Rules { budgets, ..rules() });
    for tag in 0..4 {
        assert!(matches!(go(&mut state, batch(32, tag)), Action::Ask { .. }));
    }
    assert_eq!(
        end(go(&mut state, batch(1, 9))).class,
        Some(ErrorClass::Budget)
    );
    assert_eq!(state.record.executions.len(), 128);
    // The twin: without budgets it goes on.
    let mut state = start(rules());
    assert!(matches!(go(&mut state, batch(33, 0)), Action::Ask { .. }));
}

#[test]
fn the_token_budget_reserves_the_next_request() {
    let with = |prompt: u64| {
        let mut state = start(Rules {
            budgets: Some(Budgets::DEEPSEEK),
            ..rules()
        });
        let mut first = reads(1);
        first.usage = Some(Usage {
            input_tokens: prompt,
            output_tokens: 10,
            ..Usage::default()
        });
        go(&mut state, first)
    };
    let end = end(with(600_000));
    assert!(end.text.is_some_and(|text| text.contains("token budget")));
    assert_eq!(with(300_000), Action::Ask { turn: 2 });
}

#[test]
fn usage_model_and_flags_are_gathered() {
    let mut state = start(rules());
    let mut first = reads(1);
    first.usage = Some(Usage {
        input_tokens: 100,
        output_tokens: 20,
        ..Usage::default()
    });
    first.model = Some("a".into());
    first.flags = vec!["arguments_repaired"];
    go(&mut state, first);
    let mut second = says("done");
    second.flags = vec!["arguments_repaired"];
    go(&mut state, second);
    assert_eq!(state.record.usage.map(|u| u.input_tokens), Some(100));
    assert_eq!(state.record.model.as_deref(), Some("a"));
    assert_eq!(state.record.flags, ["arguments_repaired"]);
}

/// Every assistant message with calls is followed by exactly its results, and
/// roles alternate, whatever the model does.
#[test]
fn the_conversation_is_well_formed_whatever_comes() {
    use proptest::prelude::*;
    let one = prop_oneof![
        Just(0u8),
        Just(1),
        Just(2),
        Just(3),
        Just(4),
        Just(5),
        Just(6),
        Just(7)
    ];
    proptest!(|(script in proptest::collection::vec(one, 1..30))| {
        let mut state = start(Rules { max_turns: 40, keep_tool_results: 2, ..rules() });
        for (n, kind) in script.into_iter().enumerate() {
            let id = |k: &str| format!("{k}{n}");
            let mut next = match kind {
                0 => reads(n as u32),
                1 => reply(vec![]),
                2 => says("I'll do it."),
                3 => reply(vec![tool(&id("a"), "Nope", json!({}))]),
                4 => reply(vec![
                    tool(&id("a"), "Bash", json!({"command": n})),
                    tool(&id("b"), "Read", json!({"file_path": "same"})),
                ]),
                5 => reply(vec![tool(&id("a"), "Read", json!({"file_path": "same"}))]),
                6 => says("<tool_call>"),
                _ => reply(vec![tool(&id("a"), "Write", json!({"content": "y"}))]),
            };
            if n % 5 == 4 { next.stop = Stop::MaxTokens; }
            let action = go(&mut state, next);
            if n % 7 == 6
                && !matches!(action, Action::End(_))
                && let Action::End(_) = state.step(error(ErrorClass::ContextOverflow), &Fake)
            {
                return Ok(());
            }
            let messages = state.messages();
            for pair in messages.windows(2) {
                prop_assert!(pair[0].role != pair[1].role);
                let calls: Vec<_> = pair[0].tool_uses().map(|c| c.id.clone()).collect();
                let answered: Vec<_> = pair[1].blocks.iter().filter_map(|b| match b {
                    Block::ToolResult(r) => Some(r.tool_use_id.clone()),
                    _ => None,
                }).collect();
                prop_assert_eq!(calls, answered);
            }
            for message in messages {
                prop_assert!(!message.blocks.is_empty());
            }
            if matches!(action, Action::End(_)) { return Ok(()); }
            prop_assert_eq!(messages.last().map(|m| m.role), Some(Role::User));
        }
    });
}
