use super::*;

fn ask(mode: &'static str) -> Ask<'static> {
    Ask {
        mode,
        id: None,
        index: None,
        kind: "code",
        source: "x = 1\ny = 2",
    }
}

fn book() -> Value {
    json!({
        "cells": [
            {"cell_type": "code", "id": "aa", "metadata": {"k": 1.50}, "execution_count": 3,
             "outputs": [{"data": "é"}], "source": ["old"]},
            {"cell_type": "markdown", "id": "bb", "metadata": {}, "source": ["# t"]},
        ],
        "nbformat": 4, "nbformat_minor": 5, "metadata": {"z": 1, "a": 2},
    })
}

#[test]
fn replacing_clears_the_outputs_of_that_cell_only() {
    let mut now = book();
    let did = change(
        &mut now,
        &Ask {
            id: Some("aa"),
            ..ask("replace")
        },
        "new",
    )
    .expect("ok");
    assert_eq!(
        (did.index, did.cells, did.id.as_deref()),
        (0, 2, Some("aa"))
    );
    let mut expected = book();
    expected["cells"][0]["source"] = json!(["x = 1\n", "y = 2"]);
    expected["cells"][0]["outputs"] = json!([]);
    expected["cells"][0]["execution_count"] = Value::Null;
    assert_eq!(now, expected);
    let mut now = book();
    change(
        &mut now,
        &Ask {
            index: Some(1),
            source: "",
            ..ask("replace")
        },
        "n",
    )
    .expect("ok");
    assert_eq!(now["cells"][1]["source"], json!([""]));
    assert_eq!(now["cells"][1].get("outputs"), None);
}

#[test]
fn inserting_goes_behind_the_anchor_or_to_the_end() {
    for (id, index, at) in [
        (Some("aa"), None, 1),
        (None, Some(0), 1),
        (Some("zz"), Some(0), 2),
        (None, Some(9), 2),
        (None, None, 2),
    ] {
        let mut now = book();
        let did = change(
            &mut now,
            &Ask {
                id,
                index,
                ..ask("insert")
            },
            "0a0b0c0d",
        )
        .expect("ok");
        assert_eq!((did.index, did.cells), (at, 3));
        assert_eq!(now["cells"][at]["id"], "0a0b0c0d");
    }
    // Before 4.5 cells have no ids.
    let mut old = book();
    old["nbformat_minor"] = json!(4);
    let did = change(
        &mut old,
        &Ask {
            kind: "markdown",
            ..ask("insert")
        },
        "n",
    )
    .expect("ok");
    assert_eq!(did.id, None);
    assert_eq!(
        old["cells"][2],
        json!({"cell_type": "markdown", "metadata": {}, "source": ["x = 1\n", "y = 2"]})
    );
}

#[test]
fn what_is_not_there_is_an_error_that_says_what_is() {
    let why = |ask: Ask<'_>| change(&mut book(), &ask, "n").expect_err("refused");
    assert!(
        why(Ask {
            id: Some("zz"),
            ..ask("delete")
        })
        .contains("no cell has the id")
    );
    assert!(
        why(Ask {
            index: Some(2),
            ..ask("replace")
        })
        .contains("0 to 1 are there")
    );
    assert!(why(ask("delete")).contains("give cell_id or cell_index"));
    let mut now = book();
    change(
        &mut now,
        &Ask {
            index: Some(0),
            ..ask("delete")
        },
        "n",
    )
    .expect("the twin");
    assert_eq!(now["cells"].as_array().expect("cells").len(), 1);
}

#[test]
fn what_is_written_is_one_space_deep_in_order_and_ends_the_line() {
    let text = written(&json!({"b": ["é"], "a": 1.5})).expect("text");
    assert_eq!(text, "{\n \"b\": [\n  \"é\"\n ],\n \"a\": 1.5\n}\n");
    let again = parsed(&written(&book()).expect("text")).expect("parsed");
    assert_eq!(
        written(&again).expect("text"),
        written(&book()).expect("text")
    );
}

#[test]
fn a_text_that_is_no_notebook_or_would_be_rounded_is_refused() {
    assert!(parsed("{").expect_err("cut").contains("not valid JSON"));
    assert!(parsed("[]").expect_err("list").contains("no list of cells"));
    assert!(
        parsed(r#"{"cells": {}}"#)
            .expect_err("object")
            .contains("no list of cells")
    );
    let long = r#"{"cells": [], "n": 123456789012345678901234567890}"#;
    assert!(
        parsed(long)
            .expect_err("long")
            .contains("would not survive")
    );
    let quoted = r#"{"cells": [], "n": "\"123456789012345678901234567890"}"#;
    parsed(quoted).expect("a string is no number");
    parsed(r#"{"cells": [], "n": 18446744073709551615}"#).expect("a u64 is kept");
}
