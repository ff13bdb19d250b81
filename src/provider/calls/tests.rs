use proptest::prelude::*;
use serde_json::json;

use super::*;

const KNOWN: [&str; 3] = ["Read", "Bash", "Write"];

fn join(pieces: &[Value]) -> Vec<RawCall> {
    let mut assembler = Assembler::default();
    for piece in pieces {
        assembler.piece(piece, &KNOWN);
    }
    assembler.finish()
}

fn call(id: Option<&str>, name: &str, arguments: &str) -> RawCall {
    RawCall {
        id: id.map(str::to_owned),
        name: name.into(),
        arguments: Raw::Text(arguments.into()),
    }
}

#[test]
fn without_index_a_new_id_is_a_new_call() {
    let calls = join(&[
        json!({"id": "a", "function": {"name": "Read", "arguments": "{\"p\":1}"}}),
        json!({"id": "b", "function": {"name": "Read", "arguments": "{\"p\""}}),
        json!({"function": {"arguments": ":2}"}}),
    ]);
    assert_eq!(
        calls,
        [
            call(Some("a"), "Read", "{\"p\":1}"),
            call(Some("b"), "Read", "{\"p\":2}")
        ]
    );
}

#[test]
fn another_id_at_a_used_index_is_a_new_call_and_the_newest_goes_on() {
    let calls = join(&[
        json!({"index": 0, "id": "c1", "function": {"name": "Read", "arguments": "{\"p\":1}"}}),
        json!({"index": 0, "id": "c2", "function": {"name": "Read", "arguments": "{\"p"}}),
        json!({"index": 0, "function": {"arguments": "\":2}"}}),
    ]);
    assert_eq!(
        calls,
        [
            call(Some("c1"), "Read", "{\"p\":1}"),
            call(Some("c2"), "Read", "{\"p\":2}")
        ]
    );
}

#[test]
fn noise_in_continuations_changes_nothing() {
    let calls = join(&[
        json!({"index": 0, "id": "x", "type": "function", "function": {"name": "Bash", "arguments": ""}}),
        json!({"index": 0, "id": "x", "function": {"name": "Bash", "arguments": "{\"c"}}),
        json!({"index": 0, "id": "", "function": {"name": "", "arguments": "\":"}}),
        json!({"index": 0, "id": null, "function": {"name": null, "arguments": "1"}}),
        json!({"index": 0, "id": "null", "function": {"name": "", "arguments": "}"}}),
        json!({"index": 0, "id": "x", "function": {"name": "Bash", "arguments": null}}),
        json!({"index": 0, "id": "x", "function": null}),
    ]);
    assert_eq!(calls, [call(Some("x"), "Bash", "{\"c\":1}")]);
}

#[test]
fn a_name_may_come_after_the_arguments() {
    let calls = join(&[
        json!({"index": 0, "id": "c", "function": {"arguments": "{\"f\":1}"}}),
        json!({"index": 0, "function": {"name": "Read"}}),
    ]);
    assert_eq!(calls, [call(Some("c"), "Read", "{\"f\":1}")]);
}

#[test]
fn a_name_in_pieces_is_joined_only_towards_a_tool() {
    let calls = join(&[
        json!({"index": 0, "id": "c", "function": {"name": "Re"}}),
        json!({"index": 0, "function": {"name": "ad", "arguments": "{}"}}),
    ]);
    assert_eq!(calls, [call(Some("c"), "Read", "{}")]);
    let calls = join(&[
        json!({"index": 0, "id": "c", "function": {"name": "Read"}}),
        json!({"index": 0, "function": {"name": "Read", "arguments": "{}"}}),
    ]);
    assert_eq!(calls, [call(Some("c"), "Read", "{}")]);
}

#[test]
fn neither_id_nor_index() {
    let calls = join(&[
        json!({"function": {"name": "Read", "arguments": "{\"p\":1}"}}),
        json!({"function": {"name": "Read", "arguments": "{\"p\":2}"}}),
        json!({"function": {"name": "Bash", "arguments": "{\"c\":"}}),
        json!({"function": {"arguments": "3}"}}),
    ]);
    assert_eq!(
        calls,
        [
            call(None, "Read", "{\"p\":1}"),
            call(None, "Read", "{\"p\":2}"),
            call(None, "Bash", "{\"c\":3}")
        ]
    );
}

#[test]
fn whole_calls_without_id_all_at_index_0() {
    let calls = join(&[
        json!({"index": 0, "function": {"name": "Read", "arguments": "{\"p\":1}"}}),
        json!({"index": 0, "function": {"name": "Read", "arguments": "{\"p\":2}"}}),
        json!({"index": 0, "function": {"name": "Read", "arguments": ""}}),
    ]);
    assert_eq!(
        calls,
        [
            call(None, "Read", "{\"p\":1}"),
            call(None, "Read", "{\"p\":2}")
        ]
    );
}

#[test]
fn arguments_as_an_object() {
    let calls = join(&[
        json!({"index": 0, "id": "o", "function": {"name": "Write", "arguments": {"a": 1}}}),
    ]);
    let mut object = Map::new();
    object.insert("a".into(), json!(1));
    assert_eq!(calls[0].arguments, Raw::Object(object));
}

#[test]
fn interleaved_and_high_index_first() {
    let calls = join(&[
        json!({"index": 1, "id": "b", "function": {"name": "Bash", "arguments": "{\"x"}}),
        json!({"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{\"y"}}),
        json!({"index": 1, "function": {"arguments": "\":1}"}}),
        json!({"index": 0, "function": {"arguments": "\":2}"}}),
    ]);
    assert_eq!(
        calls,
        [
            call(Some("a"), "Read", "{\"y\":2}"),
            call(Some("b"), "Bash", "{\"x\":1}")
        ]
    );
}

#[test]
fn the_same_id_at_two_indexes_is_two_calls() {
    let calls = join(&[
        json!({"index": 0, "id": "call_0", "function": {"name": "Read", "arguments": "{}"}}),
        json!({"index": 1, "id": "call_0", "function": {"name": "Bash", "arguments": "{}"}}),
    ]);
    assert_eq!(calls.len(), 2);
}

#[test]
fn unfinished_arguments_are_seen() {
    let mut assembler = Assembler::default();
    assembler.piece(
        &json!({"id": "a", "function": {"name": "Read", "arguments": "{\"p\""}}),
        &KNOWN,
    );
    assert!(assembler.unfinished());
    assembler.piece(&json!({"function": {"arguments": ":1}"}}), &KNOWN);
    assert!(!assembler.unfinished());
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i8>().prop_map(|n| json!(n)),
        "[a-c{}\":]{0,4}".prop_map(|s| json!(s)),
        Just(json!({})),
    ];
    (leaf.clone(), leaf.clone(), leaf.clone(), leaf).prop_map(|(index, id, name, arguments)| {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    })
}

proptest! {
    #[test]
    fn odd_pieces_never_panic_and_no_text_is_lost(pieces in proptest::collection::vec(anything(), 0..12)) {
        let sent: usize = pieces.iter().filter_map(|p| p["function"]["arguments"].as_str()).map(str::len).sum();
        let mut assembler = Assembler::default();
        for piece in &pieces {
            assembler.piece(piece, &KNOWN);
        }
        let kept: usize = assembler.parts.iter().map(|p| p.text.len()).sum();
        prop_assert_eq!(sent, kept);
        assembler.finish();
    }
}
