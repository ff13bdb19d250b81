use proptest::prelude::*;
use serde_json::json;

use super::*;

fn tools() -> Vec<ToolSpec> {
    let tool = |name, properties: Value| ToolSpec {
        name,
        description: String::new(),
        schema: json!({"type": "object", "properties": properties}),
    };
    vec![
        tool(
            "Read",
            json!({"file_path": {"type": "string"}, "limit": {"type": "integer"}}),
        ),
        tool("Bash", json!({"command": {"type": "string"}})),
        tool(
            "Write",
            json!({"file_path": {"type": "string"}, "content": {"type": "string"}}),
        ),
        tool("Edit", json!({"replace_all": {"type": "boolean"}})),
    ]
}

fn found(text: &str) -> Recovered {
    recover(text, &tools())
}

#[track_caller]
fn calls(text: &str, left: &str, want: &[(&str, Value)]) {
    let found = found(text);
    let got: Vec<_> = found
        .calls
        .iter()
        .map(|c| (c.name.as_str(), Value::Object(c.parsed.input.clone())))
        .collect();
    assert_eq!(got, want, "{text}");
    assert_eq!(found.text, left, "{text}");
    for call in &found.calls {
        assert_eq!(call.parsed.malformed, None, "{text}");
    }
}

#[track_caller]
fn broken(text: &str, name: &str) {
    let found = found(text);
    assert_eq!(found.calls.len(), 1, "{text}: {found:?}");
    assert_eq!(found.calls[0].name, name);
    assert!(found.calls[0].parsed.malformed.is_some(), "{text}");
}

#[track_caller]
fn untouched(text: &str) {
    let found = found(text);
    assert_eq!((found.text.as_str(), found.calls.len()), (text, 0));
}

#[test]
fn hermes() {
    calls(
        "I will read it.\n<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a.txt\"}}\n</tool_call>",
        "I will read it.",
        &[("Read", json!({"file_path": "a.txt"}))],
    );
    calls(
        "<tool_call>{\"name\":\"Read\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"Bash\",\"parameters\":\"{\\\"command\\\":\\\"ls\\\"}\"}</tool_call>",
        "",
        &[("Read", json!({})), ("Bash", json!({"command": "ls"}))],
    );
    // The closing tag as a stop word of the server, and inside a string.
    calls(
        "<tool_call>{\"name\":\"Read\",\"arguments\":{}}",
        "",
        &[("Read", json!({}))],
    );
    calls(
        "<tool_call>{\"name\":\"Bash\",\"arguments\":{\"command\":\"echo '</tool_call>'\"}}</tool_call> end",
        "end",
        &[("Bash", json!({"command": "echo '</tool_call>'"}))],
    );
    broken(
        "<tool_call>{\"name\":\"Write\",\"arguments\":{\"content\":\"aaa",
        "Write",
    );
    broken(
        "<tool_call>{\"name\":\"Write\",\"arguments\":{\"content\":}}</tool_call>",
        "Write",
    );
    calls(
        "<tool_call>{\"name\":\"Bash\",\"arguments\":{\"command\":\"a\\d\"}}</tool_call>",
        "",
        &[("Bash", json!({"command": "a\\d"}))],
    );
    // A tool that nobody offers: the tools answer that, with the list.
    calls(
        "<tool_call>{\"name\":\"Nope\",\"arguments\":{}}</tool_call>",
        "",
        &[("Nope", json!({}))],
    );
    untouched("a <tool_call> is written in tags");
}

#[test]
fn qwen_xml() {
    calls(
        "<tool_call>\n<function=Bash>\n<parameter=command>\nls\necho \"<b>\"\n</parameter>\n</function>\n</tool_call>",
        "",
        &[("Bash", json!({"command": "ls\necho \"<b>\""}))],
    );
    calls(
        "x <function=Read><parameter=file_path>a</parameter><parameter=limit>3</parameter></function> y",
        "x  y",
        &[("Read", json!({"file_path": "a", "limit": 3}))],
    );
    calls(
        "<tool_call><function=Edit><parameter=replace_all>True</parameter></tool_call>",
        "",
        &[("Edit", json!({"replace_all": true}))],
    );
    broken("<tool_call><function=Bash><parameter=command>ls", "Bash");
    broken(
        "<function=Bash><parameter=command>a</parameter><parameter=command>b</parameter></function>",
        "Bash",
    );
}

fn dsml(bar: &str) -> String {
    "Two.\n<#DSML#tool_calls>\n<#DSML#invoke name=\"Write\">\n<#DSML#parameter name=\"file_path\" string=\"true\">d.txt</#DSML#parameter>\n\
     <#DSML#parameter name=\"content\" string=\"true\">if a < b && c > d:\n  pass\n</#DSML#parameter>\n</#DSML#invoke>\n\
     <#DSML#invoke name=\"Read\">\n<#DSML#parameter name=\"file_path\" string=\"true\">a.txt</#DSML#parameter>\n\
     <#DSML#parameter name=\"limit\" string=\"false\">1</#DSML#parameter>\n</#DSML#invoke>\n</#DSML#tool_calls>"
        .replace('#', bar)
}

#[test]
fn dsml_with_every_kind_of_bar() {
    let want = [
        (
            "Write",
            json!({"file_path": "d.txt", "content": "if a < b && c > d:\n  pass\n"}),
        ),
        ("Read", json!({"file_path": "a.txt", "limit": 1})),
    ];
    for bar in ["\u{ff5c}", "\u{2016}", "\u{ff5c}\u{ff5c}", "|"] {
        calls(&dsml(bar), "Two.", &want);
        calls(
            &dsml(bar).replace("tool_calls", "function_calls"),
            "Two.",
            &want,
        );
        // No outer tags, or no outer end tag.
        let bare = dsml(bar).replace(&format!("<{bar}DSML{bar}tool_calls>"), "");
        calls(
            &bare.replace(&format!("</{bar}DSML{bar}tool_calls>"), ""),
            "Two.",
            &want,
        );
        calls(
            &dsml(bar).replace(&format!("</{bar}DSML{bar}tool_calls>"), ""),
            "Two.",
            &want,
        );
    }
}

#[test]
fn dsml_that_is_broken_does_not_run() {
    let open = "<\u{ff5c}DSML\u{ff5c}";
    let close = "</\u{ff5c}DSML\u{ff5c}";
    broken(
        &format!("{open}invoke name=\"Bash\">{open}parameter name=\"command\" string=\"true\">ls"),
        "Bash",
    );
    broken(
        &format!(
            "{open}invoke name=\"Bash\">{open}parameter name=\"command\" string=\"true\">ls{close}parameter>"
        ),
        "Bash",
    );
    broken(
        &format!(
            "{open}invoke name=\"Read\">{open}parameter name=\"limit\" string=\"false\">[\"x\\(\"{close}parameter>{close}invoke>"
        ),
        "Read",
    );
    let restarted = format!(
        "{open}invoke name=\"Bash\">{open}parameter name=\"command\" string=\"true\">ls {open}tool_calls>{open}invoke name=\"Bash\">{close}invoke>"
    );
    let found = found(&restarted);
    assert!(
        !found.calls.is_empty() && found.calls.iter().all(|c| c.parsed.malformed.is_some()),
        "{found:?}"
    );
}

#[test]
fn bare_json_only_as_the_whole_message_and_for_tools_on_offer() {
    for text in [
        "{\"name\":\"Read\",\"parameters\":{\"file_path\":\"a\"}}",
        "```json\n{\"name\": \"Read\", \"arguments\": {\"file_path\": \"a\"}}\n```",
        " {\"type\":\"function\",\"function\":{\"name\":\"Read\",\"arguments\":\"{\\\"file_path\\\":\\\"a\\\"}\"}}\n",
    ] {
        calls(text, "", &[("Read", json!({"file_path": "a"}))]);
        assert!(found(text).bare);
    }
    untouched("Like this: {\"name\":\"Read\",\"parameters\":{}}");
    untouched("{\"name\":\"Peter\",\"parameters\":{}}");
    untouched("{\"name\":\"delegate\",\"version\":1}");
    assert!(!found("<tool_call>{\"name\":\"Read\"}</tool_call>").bare);
}

#[test]
fn other_brackets() {
    let want = [("Read", json!({"file_path": "a"}))];
    let json = "{\"name\":\"Read\",\"arguments\":{\"file_path\":\"a\"}}";
    calls(
        &format!("[TOOL_REQUEST]{json}[END_TOOL_REQUEST]"),
        "",
        &want,
    );
    calls(&format!("[TOOL_CALL]{json}[/TOOL_CALL]"), "", &want);
    calls(&format!("<|python_tag|>{json}"), "", &want);
    calls(
        "<|channel|>commentary to=functions.Read<|constrain|>json<|message|>{\"file_path\":\"a\"}<|call|>",
        "",
        &want,
    );
    untouched("<|channel|>commentary to=functions.Nope<|message|>{}<|call|>");
    untouched("<|channel|>final<|message|>hello");
}

#[test]
fn talk_about_calls_does_not_run() {
    untouched(
        "Write it so:\n```\n<tool_call>{\"name\":\"Bash\",\"arguments\":{}}</tool_call>\n```\nDone.",
    );
    untouched("Use `<tool_call>{\"name\":\"Bash\",\"arguments\":{}}</tool_call>` for that.");
    untouched("a <think>or <tool_call>{\"name\":\"Bash\",\"arguments\":{}}</tool_call></think> b");
    // The twin: after the fence it does.
    let found = found("```\nx\n```\n<tool_call>{\"name\":\"Bash\",\"arguments\":{}}</tool_call>");
    assert_eq!(found.calls.len(), 1);
}

proptest! {
    #[test]
    fn never_panics(text in "(<tool_call>|</tool_call>|<function=|<parameter=|>|\\{\"name\":|\"Read\"|\\}|<\u{ff5c}DSML\u{ff5c}|invoke name=\"|\"|```|<think>|</|[a-z \n]|\u{1f642}){0,20}") {
        recover(&text, &tools());
    }

    #[test]
    fn plain_words_are_left_alone(text in "[a-zA-Z0-9 .,\n`']{0,80}") {
        let found = found(&text);
        prop_assert_eq!(found.text, text);
        prop_assert!(found.calls.is_empty());
    }
}
