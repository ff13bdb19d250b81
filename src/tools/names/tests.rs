use super::*;
use proptest::prelude::*;
use serde_json::json;

fn ask(name: &str, input: Value) -> Result<ToolCall, String> {
    ask_as(name, input, Capability::Coding, None)
}

fn ask_as(
    name: &str,
    input: Value,
    capability: Capability,
    allowed: Option<&[&str]>,
) -> Result<ToolCall, String> {
    let call = ToolUse {
        id: "1".to_owned(),
        name: name.to_owned(),
        input: input.as_object().expect("an object").clone(),
        malformed: None,
    };
    let allowed: Option<Vec<String>> =
        allowed.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    canonical(&call, capability, allowed.as_deref())
}

fn call(tool: &'static str, args: Value, renamed: bool, alias: Option<&'static str>) -> ToolCall {
    ToolCall {
        tool,
        args: args.as_object().expect("an object").clone(),
        renamed,
        alias,
    }
}

#[test]
fn a_plain_call_passes_as_it_is() {
    let args = json!({"file_path": "a", "offset": 3, "limit": 2});
    assert_eq!(
        ask("Read", args.clone()),
        Ok(call("Read", args, false, None))
    );
}

#[test]
fn names_are_met_with_tolerance() {
    let file = || json!({"file_path": "a"});
    for name in [" read ", "READ", "read", "Read\n"] {
        assert_eq!(
            ask(name, file()),
            Ok(call("Read", file(), true, None)),
            "{name}"
        );
    }
    for name in ["read_file", "Read_File", "readFile"] {
        let got = ask(name, json!({"path": "a"}));
        assert_eq!(
            got,
            Ok(call("Read", file(), true, Some("read_file"))),
            "{name}"
        );
    }
    let got = ask("notebook_edit", json!({"path": "a", "mode": "delete"}));
    let args = json!({"notebook_path": "a", "edit_mode": "delete"});
    assert_eq!(got, Ok(call("NotebookEdit", args, true, None)));
    let got = ask(
        "Edit",
        json!({"filePath": "a", "oldString": "x", "new_str": ""}),
    );
    let args = json!({"file_path": "a", "old_string": "x", "new_string": ""});
    assert_eq!(got, Ok(call("Edit", args, true, None)));
}

#[test]
fn the_proper_name_wins_over_another_and_flags_keep_their_case() {
    let got = ask("Read", json!({"path": "b", "file_path": "a"}));
    assert_eq!(
        got,
        Ok(call("Read", json!({"file_path": "a"}), false, None))
    );
    let got = ask("Grep", json!({"pattern": "x", "-C": 2, "-i": true}));
    let args = json!({"pattern": "x", "-i": true, "context": 2});
    assert_eq!(got, Ok(call("Grep", args, true, None)));
    let got = ask("Grep", json!({"pattern": "x", "-I": true, "-a": 3}));
    assert_eq!(got, Ok(call("Grep", json!({"pattern": "x"}), false, None)));
}

#[test]
fn an_unknown_tool_is_told_what_there_is() {
    let text = ask("repo_browser.open_tab", json!({"url": "x"})).expect_err("unknown");
    assert_eq!(
        text,
        "ERROR: unknown tool \"repo_browser.open_tab\". Available tools: Read, Write, Edit, \
         Bash, Glob, Grep, NotebookEdit."
    );
    assert!(ask("", json!({})).is_err());
    let long = ask(&"x".repeat(10_000), json!({})).expect_err("unknown");
    assert!(long.len() < 300);
}

#[test]
fn a_read_only_run_has_three_tools_whatever_is_asked() {
    let readonly = |name, input, allowed| ask_as(name, input, Capability::Readonly, allowed);
    for (name, input) in [
        ("Write", json!({"file_path": "a", "content": ""})),
        ("write_file", json!({"path": "a", "content": ""})),
        ("Bash", json!({"command": "true"})),
        ("run_bash", json!({"command": "true"})),
        (
            "Edit",
            json!({"file_path": "a", "old_string": "a", "new_string": "b"}),
        ),
        (
            "NotebookEdit",
            json!({"notebook_path": "a", "new_source": ""}),
        ),
    ] {
        let text = readonly(name, input.clone(), None).expect_err(name);
        assert!(text.contains("read-only"), "{text}");
        assert!(
            text.ends_with("Available tools: Read, Glob, Grep."),
            "{text}"
        );
        assert!(readonly(name, input.clone(), Some(&["Write", "Bash"])).is_err());
        assert!(ask(name, input).is_ok(), "{name}: the twin in a coding run");
    }
    assert_eq!(
        available(Capability::Readonly).collect::<Vec<_>>(),
        ["Read", "Glob", "Grep"]
    );
    assert!(readonly("Glob", json!({"pattern": "*"}), None).is_ok());
}

#[test]
fn an_agent_file_takes_away_by_any_name() {
    let coding = |name, input, allowed| ask_as(name, input, Capability::Coding, Some(allowed));
    let read = || json!({"file_path": "a"});
    assert!(coding("Read", read(), &["read_file"]).is_ok());
    assert!(coding("read_file", read(), &["Read"]).is_ok());
    let text = coding("Bash", json!({"command": "true"}), &["Read", "Grep"]).expect_err("Bash");
    assert_eq!(
        text,
        "ERROR: Bash is not available to this agent. Available tools: Read, Grep."
    );
    // `Bash(git:*)` is narrower than Bash, so it does not give Bash.
    assert!(coding("Bash", json!({"command": "true"}), &["Bash(git:*)"]).is_err());
}

#[test]
fn what_is_missing_is_named_with_what_came() {
    let text = ask("Edit", json!({"file_path": "a", "new_string": "x"})).expect_err("missing");
    assert_eq!(
        text,
        "ERROR: Edit: missing required arguments: old_string. Required: file_path, old_string, \
         new_string. Optional: replace_all. Received: \"file_path\", \"new_string\"."
    );
    let text = ask("Write", json!({})).expect_err("missing");
    assert!(text.contains("file_path, content") && text.ends_with("Received: nothing."));
    let text = ask("NotebookEdit", json!({"path": "a"})).expect_err("missing");
    assert!(text.contains("missing required arguments: new_source"));
    assert!(ask("Read", json!({"file_path": null})).is_err());
    assert!(ask("Read", json!({"file_path": "  "})).is_err());
    assert!(ask("Read", json!({"file_path": "a", "limit": null})).is_ok());
}

#[test]
fn values_are_met_with_none() {
    let bad: [(&str, Value); 25] = [
        ("Read", json!({"file_path": 1})),
        ("Read", json!({"file_path": ["a"]})),
        ("Read", json!({"file_path": "a", "offset": -1})),
        ("Read", json!({"file_path": "a", "offset": true})),
        ("Read", json!({"file_path": "a", "offset": "1"})),
        ("Read", json!({"file_path": "a", "limit": 1.5})),
        ("Read", json!({"file_path": "a", "limit": 2.0})),
        ("Read", json!({"file_path": "a", "column": 0})),
        ("Write", json!({"file_path": "a", "content": 5})),
        ("Write", json!({"file_path": "a", "content": {"a": 1}})),
        (
            "Edit",
            json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "true"}),
        ),
        (
            "Edit",
            json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": 1}),
        ),
        ("Bash", json!({"command": " "})),
        ("Bash", json!({"command": "true", "timeout": 0})),
        ("Bash", json!({"command": "true", "timeout": 1_800_001})),
        ("Bash", json!({"command": "true", "timeout": "7"})),
        ("Bash", json!({"command": "true", "timeout": true})),
        ("Bash", json!({"command": "true", "timeout": 1.5})),
        ("Bash", json!({"command": "true", "timeout": -5})),
        ("Glob", json!({"pattern": ""})),
        ("Grep", json!({"pattern": "x", "head_limit": 0})),
        ("Grep", json!({"pattern": "x", "max_matches": 1001})),
        ("Grep", json!({"pattern": "x", "output_mode": "lines"})),
        ("Grep", json!({"pattern": "x", "-i": "yes"})),
        (
            "NotebookEdit",
            json!({"path": "a", "new_source": "", "cell_index": -1}),
        ),
    ];
    for (name, input) in bad {
        let text = ask(name, input.clone()).expect_err(&input.to_string());
        assert!(
            text.starts_with("ERROR: ") && text.contains(" must be "),
            "{text}"
        );
    }
    let text = ask("Bash", json!({"command": "true", "timeout": "7"})).expect_err("string");
    assert!(text.contains("`timeout` must be a whole number of seconds from 1 to 1800"));
    for good in [1, 600, 1800, 120_000, 1_800_000] {
        assert!(
            ask("Bash", json!({"command": "true", "timeout": good})).is_ok(),
            "{good}"
        );
    }
    for good in [1, 1000] {
        assert!(ask("Grep", json!({"pattern": "x", "max_matches": good})).is_ok());
    }
}

#[test]
fn the_older_tools_forgive_a_bad_number_as_they_always_did() {
    let timeout = |value: Value| {
        let call = ask("run_bash", json!({"command": "true", "timeout": value})).expect("ok");
        assert_eq!(call.alias, Some("run_bash"));
        call.args.get("timeout").and_then(Value::as_u64)
    };
    for (value, seconds) in [
        (json!(-1), None),
        (json!(true), None),
        (json!("600"), None),
        (json!(0.5), None),
        (json!(1e9), Some(1800)),
        (json!(2.7), Some(2)),
        (json!(120_000), Some(1800)),
        (json!(30), Some(30)),
    ] {
        assert_eq!(timeout(value.clone()), seconds, "{value}");
    }
    let read = ask(
        "read_file",
        json!({"path": "a", "offset": -4, "limit": "x"}),
    )
    .expect("ok");
    assert_eq!(Value::Object(read.args), json!({"file_path": "a"}));
    assert!(ask("write_file", json!({"path": "a", "content": 5})).is_err());
}

#[test]
fn arguments_that_did_not_parse_are_said_to_the_model() {
    let call = ToolUse {
        id: "1".to_owned(),
        name: "Write".to_owned(),
        input: Map::new(),
        malformed: Some("the JSON was cut off".to_owned()),
    };
    let text = canonical(&call, Capability::Coding, None).expect_err("malformed");
    assert!(
        text.contains("cut off") && text.contains("file_path, content"),
        "{text}"
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        proptest::collection::vec(any::<u8>(), 0..3).prop_map(Value::from),
    ];
    leaf.boxed()
}

proptest! {
    /// Whatever comes in: no panic, and what passes is fully typed.
    #[test]
    fn anything_is_either_refused_or_in_canonical_form(
        name in "( ?(read|Write|EDIT|bash|glob|Grep|notebook_edit|run_bash|x.y)\\s?|.{0,10})",
        input in proptest::collection::btree_map(
            "(file_path|path|content|pattern|command|timeout|limit|offset|old_string|new_string|-i|-C|.{0,6})",
            any_value(), 0..6),
    ) {
        let input: Map<String, Value> = input.into_iter().collect();
        let call = ToolUse { id: String::new(), name, input, malformed: None };
        match canonical(&call, Capability::Coding, None) {
            Ok(call) => {
                let tool = TOOLS.iter().find(|tool| tool.name == call.tool).expect("a tool");
                for (key, value) in &call.args {
                    let param = tool.params.iter().find(|param| param.name == key);
                    let param = param.expect("a known parameter");
                    prop_assert!(checked(param, value).is_ok());
                }
            }
            Err(text) => prop_assert!(text.starts_with("ERROR: ") && text.len() < 3000),
        }
    }
}
