//! Reading, and the edge of the workspace.

use super::*;

#[test]
fn read_shows_numbered_lines_under_a_header() {
    let mut house = House::new();
    house.put("f", "a\nb\nc\nd\ne\n");
    let read = |house: &mut House, args| house.ok("Read", args);
    assert_eq!(
        read(&mut house, json!({"file_path": "f"})),
        "[lines 1-5 of 5]\n1\ta\n2\tb\n3\tc\n4\td\n5\te"
    );
    assert_eq!(
        read(
            &mut house,
            json!({"file_path": "f", "offset": 2, "limit": 2})
        ),
        "[lines 2-3 of 5]\n2\tb\n3\tc"
    );
    assert_eq!(
        read(&mut house, json!({"file_path": "f", "offset": 99})),
        "[lines 0-0 of 5]\n[offset 99 is past the end]"
    );
    house.put("empty", "");
    assert_eq!(
        read(&mut house, json!({"file_path": "empty"})),
        "[lines 0-0 of 0]\n[the file is empty]"
    );
    house.put("dos", "\u{feff}x\r\ny\r\n");
    let absolute = house.path("dos");
    assert_eq!(
        read(&mut house, json!({"file_path": absolute})),
        "[lines 1-2 of 2]\n1\tx\n2\ty"
    );
    house.put("latin", b"caf\xe9\n");
    assert_eq!(
        read(&mut house, json!({"file_path": "latin"})),
        "[lines 1-1 of 1]\n1\tcaf\\xE9"
    );
}

#[test]
fn a_long_file_is_paged_and_a_long_line_too() {
    let mut house = House::new();
    house.put("long", "123456789\n".repeat(20_000));
    let text = house.ok("Read", json!({"file_path": "long"}));
    assert!(text.chars().count() <= MAX_TEXT);
    let next = text.lines().last().expect("note");
    assert!(next.starts_with("[more: go on with offset="), "{next}");

    house.put("line", "é".repeat(60_000));
    let first = house.ok("Read", json!({"file_path": "line"}));
    assert!(first.chars().count() <= MAX_TEXT);
    let note = first.lines().last().expect("note").to_owned();
    let column: u64 = note
        .rsplit_once("column=")
        .and_then(|(_, rest)| rest.trim_end_matches(']').parse().ok())
        .expect("a column");
    let args = json!({"file_path": "line", "offset": 1, "column": column});
    let second = house.ok("Read", args);
    let shown = |text: &str| text.matches('é').count();
    assert_eq!(shown(&first) + shown(&second), 60_000);
    assert!(!second.contains("go on"));
}

#[test]
fn what_cannot_be_read_says_what_it_is() {
    let mut house = House::new();
    house.put("d/one", "");
    house.put("d/two", "");
    house.put("bin", b"ab\0c");
    let text = house.fails("Read", json!({"file_path": "d/nope"}));
    assert!(text.contains("does not exist. In d: one, two"), "{text}");
    let text = house.fails("Read", json!({"file_path": "x/y/nope"}));
    assert!(text.contains("In .: bin, d/"), "{text}");
    for at in 0..30 {
        house.put(&format!("many/{at:02}"), "");
    }
    let text = house.fails("Read", json!({"file_path": "many/nope"}));
    assert!(
        text.contains("00, 01") && text.ends_with("19 and 10 more"),
        "{text}"
    );
    assert!(
        house
            .fails("Read", json!({"file_path": "d"}))
            .contains("is a directory")
    );
    assert!(
        house
            .fails("Read", json!({"file_path": "bin"}))
            .contains("binary file")
    );
    let fifo = house.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("fifo");
    house.refused("Read", json!({"file_path": "fifo"}));
}

#[test]
fn an_image_is_for_models_that_see() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let mut blind = House::new();
    blind.put("i.png", png);
    assert!(
        blind
            .fails("Read", json!({"file_path": "i.png"}))
            .contains("image/png")
    );
    let mut seeing = House::with(|hello| hello.vision = true);
    seeing.put("i.png", png);
    let args = json!({"file_path": "i.png"})
        .as_object()
        .expect("object")
        .clone();
    let (answer, bytes) = seeing.worker.run("Read", &args, &mut seeing.gate);
    assert_eq!(answer.image.as_deref(), Some("image/png"));
    assert_eq!(bytes, png);
}

#[test]
fn whole_outputs_can_be_read_under_their_path_and_nothing_beside_them() {
    let mut house = House::new();
    fs::write(house.base.join("spill/1-stdout"), "all of it\n").expect("write");
    symlink("../out/secret", house.base.join("spill/link")).expect("link");
    let text = house.ok(
        "Read",
        json!({"file_path": "/run/delegate/output/1-stdout"}),
    );
    assert!(text.contains("all of it"));
    for out in ["link", "../out/secret", "nope"] {
        let path = format!("/run/delegate/output/{out}");
        house.fails("Read", json!({"file_path": path}));
    }
    let text = json!({"file_path": "/run/delegate/output/new", "content": "x"});
    house.refused("Write", text);
}

#[test]
fn nothing_outside_is_reached_by_any_file_tool() {
    let mut house = House::new();
    house.put("f", "x");
    symlink(house.base.join("out/secret"), house.path("abs")).expect("link");
    symlink("../out", house.path("dir")).expect("link");
    let tools = |path: &str| {
        [
            ("Read", json!({"file_path": path})),
            ("Write", json!({"file_path": path, "content": "pwned"})),
            (
                "Edit",
                json!({"file_path": path, "old_string": "outside", "new_string": "pwned"}),
            ),
            ("Grep", json!({"pattern": ".", "path": path})),
            ("Glob", json!({"pattern": "*", "path": path})),
        ]
    };
    for path in [
        "../out/secret",
        "/etc/passwd",
        "abs",
        "dir/secret",
        "dir/new",
    ] {
        for (tool, args) in tools(path) {
            house.refused(tool, args);
        }
    }
    let notebook = json!({"notebook_path": "dir/n.ipynb", "edit_mode": "insert", "new_source": ""});
    house.refused("NotebookEdit", notebook);
    house.refused("Glob", json!({"pattern": "../**/*"}));
    house.refused("Glob", json!({"pattern": "/etc/*"}));
    assert_eq!(
        fs::read_to_string(house.base.join("out/secret")).expect("read"),
        "outside"
    );
    assert!(house.gate.plans.is_empty());
    assert!(
        house
            .fails("Read", json!({"file_path": "a\0b"}))
            .contains("NUL")
    );
    assert!(
        house
            .fails("Read", json!({"file_path": ""}))
            .contains("empty")
    );
    // The twins inside.
    symlink("f", house.path("inside")).expect("link");
    house.ok("Read", json!({"file_path": "inside"}));
    house.ok(
        "Edit",
        json!({"file_path": "inside", "old_string": "x", "new_string": "y"}),
    );
    assert_eq!(house.get("f"), "y");
    assert!(
        fs::symlink_metadata(house.path("inside"))
            .expect("stat")
            .is_symlink()
    );
}

#[test]
fn protected_names_are_read_and_not_written() {
    let mut house = House::new();
    symlink(".git", house.path("alias")).expect("link");
    for path in [
        ".git/config",
        "CLAUDE.md",
        ".Git/HEAD",
        "sub/.envrc",
        "AGENTS.md",
        ".bashrc",
    ] {
        house.put(path, "text here\n");
        house.ok("Read", json!({"file_path": path}));
        house.refused("Write", json!({"file_path": path, "content": "x"}));
        let edit = json!({"file_path": path, "old_string": "text", "new_string": "x"});
        house.refused("Edit", edit);
        assert_eq!(house.get(path), "text here\n");
    }
    house.refused("Write", json!({"file_path": ".mcp.json", "content": "{}"}));
    house.refused(
        "Write",
        json!({"file_path": "alias/hooks/pre-commit", "content": "x"}),
    );
    house.refused(
        "Write",
        json!({"file_path": "src/../.git/x", "content": "x"}),
    );
    assert!(house.gate.plans.is_empty());
    house.ok("Write", json!({"file_path": ".gitignore", "content": "x"}));
}

#[test]
fn a_second_name_special_files_and_folders_are_not_changed() {
    let mut house = House::new();
    house.put("f", "x\n");
    fs::hard_link(house.path("f"), house.path("g")).expect("hard link");
    house.ok("Read", json!({"file_path": "f"}));
    house.refused("Write", json!({"file_path": "f", "content": "y"}));
    house.refused(
        "Edit",
        json!({"file_path": "g", "old_string": "x", "new_string": "y"}),
    );
    fs::remove_file(house.path("g")).expect("remove");
    house.ok(
        "Edit",
        json!({"file_path": "f", "old_string": "x", "new_string": "y"}),
    );
    house.put("d/f", "");
    assert!(
        house
            .fails("Write", json!({"file_path": "d", "content": ""}))
            .contains("directory")
    );
    assert!(
        house
            .fails("Write", json!({"file_path": "new/", "content": ""}))
            .contains("directory")
    );
    house.fails("Write", json!({"file_path": "f/g", "content": ""}));
}

#[test]
fn a_read_only_worker_changes_nothing() {
    let mut house = House::with(|hello| hello.readonly = true);
    house.put("f", "x");
    house.ok("Read", json!({"file_path": "f"}));
    house.refused("Write", json!({"file_path": "f", "content": "y"}));
    house.refused(
        "Edit",
        json!({"file_path": "f", "old_string": "x", "new_string": "y"}),
    );
    let notebook = json!({"notebook_path": "n.ipynb", "edit_mode": "insert", "new_source": ""});
    house.refused("NotebookEdit", notebook);
    house.refused("Bash", json!({"command": "true"}));
    assert_eq!(house.names(), ["f"]);
}
