use super::*;

fn names(text: &str) -> Vec<String> {
    tools(&Toolsets::parse(text).expect("tool sets"))
        .into_iter()
        .map(|tool| tool.name.into_owned())
        .collect()
}

#[test]
fn tool_sets_narrow_the_list_and_unknown_ones_are_refused() {
    assert_eq!(names("").len(), ENTRIES.len());
    assert_eq!(
        names("agents,codex,gemini,dsh,status"),
        [
            "delegate_to_local_agent",
            "list_local_agents",
            "local_backend_status"
        ]
    );
    assert_eq!(
        names(" deepseek "),
        [
            "acknowledge_deepseek_mutations",
            "delegate_to_deepseek",
            "delegate_to_deepseek_readonly",
            "get_deepseek_recovery",
            "ping"
        ]
    );
    let error = Toolsets::parse("agents,deepsek").expect_err("unknown");
    assert!(error.contains("deepsek") && error.contains("status"));
}

#[test]
fn names_fit_every_host_and_are_sorted() {
    let mut sorted: Vec<_> = ENTRIES.iter().map(|entry| entry.name).collect();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        ENTRIES.iter().map(|entry| entry.name).collect::<Vec<_>>()
    );
    for entry in ENTRIES {
        assert!(
            entry
                .name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '_')
        );
    }
}

#[test]
fn the_first_512_characters_stand_alone() {
    for sets in ["", "agents", "deepseek", "agents,status"] {
        let text = instructions(&Toolsets::parse(sets).expect("sets"));
        let first = text.split("\n\n").next().unwrap_or_default();
        assert!(first.chars().count() <= 512, "{}", first.chars().count());
        assert!(first.ends_with('.'));
    }
}

#[test]
fn schemas_are_objects_without_references() {
    for tool in tools(&Toolsets::default()) {
        let output = Value::Object((**tool.output_schema.as_ref().expect("output")).clone());
        assert_eq!(output["type"], "object", "{}", tool.name);
        assert!(!output.to_string().contains("$ref"), "{}", tool.name);
    }
}
