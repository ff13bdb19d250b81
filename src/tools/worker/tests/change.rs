//! Writing, editing, notebooks, and somebody else meanwhile.

use super::*;

#[test]
fn write_creates_with_folders_and_tells_the_gate_first() {
    let mut house = House::new();
    let text = house.ok(
        "Write",
        json!({"file_path": "a/b/new.txt", "content": "héllo\n"}),
    );
    assert_eq!(text, "OK: created a/b/new.txt (6 characters, 7 bytes)");
    assert_eq!(house.get("a/b/new.txt"), "héllo\n");
    let (plan, present) = house.gate.plans.pop().expect("asked");
    assert_eq!(
        (plan.tool.as_str(), plan.path.as_str()),
        ("Write", "a/b/new.txt")
    );
    assert_eq!(plan.sha_before, None);
    assert_eq!(plan.sha_after, Digest::of("héllo\n".as_bytes()));
    assert_eq!((present, plan.mode), (None, None));
    assert!(plan.temp.starts_with("a/b/.delegate-"), "{}", plan.temp);
}

#[test]
fn write_over_a_file_needs_its_present_content_to_be_known() {
    let mut house = House::new();
    house.put("f", "old\n");
    fs::set_permissions(house.path("f"), fs::Permissions::from_mode(0o751)).expect("chmod");
    let write = json!({"file_path": "f", "content": "new\n"});
    let text = house.fails("Write", write.clone());
    assert!(
        text.contains("has not been read") && text.contains("Edit"),
        "{text}"
    );
    assert_eq!(house.get("f"), "old\n");
    assert!(house.gate.plans.is_empty());

    house.ok("Read", json!({"file_path": "f", "limit": 1}));
    house.put("f", "somebody else\n");
    let text = house.fails("Write", write.clone());
    assert!(text.contains("has changed since"), "{text}");

    house.ok("Read", json!({"file_path": "f"}));
    house.ok("Write", write.clone());
    assert_eq!(house.get("f"), "new\n");
    let mode = fs::metadata(house.path("f"))
        .expect("stat")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o751);
    let (plan, present) = house.gate.plans.pop().expect("asked");
    assert_eq!(plan.mode, Some(0o751));
    assert_eq!(plan.sha_before, Some(Digest::of(b"somebody else\n")));
    assert_eq!(present.expect("present"), b"somebody else\n");

    // What we wrote ourselves is known; the same again is no change at all.
    assert!(house.ok("Write", write).contains("nothing was changed"));
    assert!(house.gate.plans.is_empty());
    house.ok("Write", json!({"file_path": "f", "content": "third\n"}));
    assert_eq!(house.names(), ["f"]);
}

#[test]
fn content_that_is_too_large_is_refused() {
    let mut house = House::new();
    let large = "x".repeat(MAX_CHANGED as usize + 1);
    let text = house.fails("Write", json!({"file_path": "f", "content": large}));
    assert!(text.contains("at most 8388608"));
    assert!(house.names().is_empty());
}

#[test]
fn a_gate_that_refuses_leaves_everything_as_it_was() {
    let mut house = House::new();
    house.gate.refuse = Some("the journal cannot be used");
    house.put("f", "old");
    let text = house.fails("Write", json!({"file_path": "a/new", "content": "x"}));
    assert!(text.contains("the journal cannot be used"));
    house.fails("Write", json!({"file_path": "new", "content": "x"}));
    let edit = json!({"file_path": "f", "old_string": "old", "new_string": "new"});
    assert_eq!(house.call("Edit", edit).outcome, None);
    assert_eq!(house.get("f"), "old");
    assert_eq!(house.names(), ["f"]);
}

fn meanwhile(house: &mut House, act: impl FnMut() + 'static) {
    house.gate.meanwhile = Some(Box::new(act));
}

fn is_aborted(answer: &Answer) -> bool {
    !answer.ok && matches!(answer.outcome, Some(Outcome::Aborted { .. }))
}

#[test]
fn a_file_that_somebody_changed_meanwhile_is_left_alone() {
    let edit = json!({"file_path": "f", "old_string": "old", "new_string": "new"});
    type Act = fn(&Path);
    let acts: [(&str, Act); 4] = [
        ("rewritten", |f| fs::write(f, "foreign").expect("write")),
        ("same size and the same instant", |f| {
            let times = fs::metadata(f).expect("stat");
            fs::write(f, "dlo").expect("write");
            let file = fs::File::options().write(true).open(f).expect("open");
            let same = fs::FileTimes::new().set_modified(times.modified().expect("time"));
            file.set_times(same).expect("times");
        }),
        ("replaced", |f| {
            fs::write(f.with_extension("x"), "old").expect("write");
            fs::rename(f.with_extension("x"), f).expect("rename");
        }),
        ("given a second name", |f| {
            fs::hard_link(f, f.with_extension("x")).expect("link");
        }),
    ];
    for (what, act) in acts {
        let mut house = House::new();
        house.put("f", "old");
        let path = house.path("f");
        meanwhile(&mut house, move || act(&path));
        let answer = house.call("Edit", edit.clone());
        assert!(is_aborted(&answer), "{what}: {}", answer.text);
        assert!(!house.get("f").contains("new"), "{what}");
    }
    let mut house = House::new();
    house.put("f", "old");
    house.ok("Edit", edit);
    assert_eq!(house.get("f"), "new");
}

#[test]
fn a_file_that_appeared_meanwhile_is_left_alone() {
    let mut house = House::new();
    let path = house.path("f");
    meanwhile(&mut house, move || {
        fs::write(&path, "foreign").expect("write")
    });
    let answer = house.call("Write", json!({"file_path": "f", "content": "new"}));
    assert!(is_aborted(&answer), "{}", answer.text);
    assert_eq!(house.get("f"), "foreign");
    assert_eq!(house.names(), ["f"]);
}

#[test]
fn a_folder_swapped_for_a_link_out_meanwhile_leads_nowhere() {
    for (path, content) in [("d/secret", "outside"), ("d/new", "")] {
        let mut house = House::new();
        house.put("d/secret", "inside");
        house.ok("Read", json!({"file_path": "d/secret"}));
        let (d, moved, out) = (house.path("d"), house.path("moved"), house.base.join("out"));
        meanwhile(&mut house, move || {
            fs::rename(&d, &moved).expect("rename");
            symlink(&out, &d).expect("link");
        });
        let answer = house.call("Write", json!({"file_path": path, "content": "pwned"}));
        assert!(is_aborted(&answer), "{}", answer.text);
        let outside = house.base.join("out").join(path.trim_start_matches("d/"));
        assert_eq!(fs::read_to_string(outside).unwrap_or_default(), content);
        assert_eq!(
            fs::read_dir(house.base.join("out")).expect("list").count(),
            1
        );
    }
}

#[test]
fn edit_keeps_crlf_bom_and_mode_and_counts() {
    let mut house = House::new();
    house.put("w.cs", b"\xef\xbb\xbfone\r\ntwo\r\ndup\r\ndup\r\n");
    fs::set_permissions(house.path("w.cs"), fs::Permissions::from_mode(0o600)).expect("chmod");
    let edit =
        |old: &str, new: &str| json!({"file_path": "w.cs", "old_string": old, "new_string": new});
    house.ok("Edit", edit("one\ntwo\n", "one\nTWO\n"));
    let text = house.fails("Edit", edit("dup", "DUP"));
    assert!(text.contains("occurs 2 times"), "{text}");
    assert_eq!(
        fs::read(house.path("w.cs")).expect("read"),
        b"\xef\xbb\xbfone\r\nTWO\r\ndup\r\ndup\r\n"
    );
    let mode = fs::metadata(house.path("w.cs"))
        .expect("stat")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut all = edit("dup", "DUP");
    all["replace_all"] = json!(true);
    assert!(house.ok("Edit", all).contains("2 occurrences"));
    assert!(house.get("w.cs").ends_with("DUP\r\nDUP\r\n"));
    // Known since the Edit: may be replaced.
    house.ok(
        "Write",
        json!({"file_path": "w.cs", "content": "all\nnew\n"}),
    );
    assert_eq!(house.get("w.cs"), "\u{feff}all\r\nnew\r\n");
}

#[test]
fn edit_leaves_what_is_no_text_alone() {
    let mut house = House::new();
    house.put("latin", b"caf\xe9");
    house.put("bin", b"a\0b");
    for name in ["latin", "bin", "nope"] {
        let args = json!({"file_path": name, "old_string": "a", "new_string": "b"});
        house.fails("Edit", args);
    }
    assert_eq!(fs::read(house.path("latin")).expect("read"), b"caf\xe9");
}

#[test]
fn attributes_of_the_user_outlive_an_edit() {
    let mut house = House::new();
    house.put("f", "old");
    let set = |name: &str| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(house.path("f"), name, b"kept", flags)
    };
    if set("user.delegate").is_err() {
        println!("skipped: this file system has no user attributes");
        return;
    }
    house.ok(
        "Edit",
        json!({"file_path": "f", "old_string": "old", "new_string": "new"}),
    );
    let mut value = [0; 16];
    let length =
        rustix::fs::getxattr(house.path("f"), "user.delegate", &mut value[..]).expect("get");
    assert_eq!(&value[..length], b"kept");
}

#[test]
fn a_notebook_is_made_and_changed_cell_by_cell() {
    let mut house = House::new();
    let insert = |source: &str| json!({"notebook_path": "n.ipynb", "edit_mode": "insert", "new_source": source});
    house.fails(
        "NotebookEdit",
        json!({"notebook_path": "n.ipynb", "new_source": "x", "cell_index": 0}),
    );
    house.ok("NotebookEdit", insert("a = 1\n"));
    house.ok("NotebookEdit", insert("b = 2"));
    let book: Value = serde_json::from_str(&house.get("n.ipynb")).expect("json");
    assert_eq!(
        (&book["nbformat"], &book["nbformat_minor"]),
        (&json!(4), &json!(5))
    );
    assert_eq!(book["cells"][0]["source"], json!(["a = 1\n"]));
    let id = book["cells"][1]["id"].as_str().expect("id");
    let text = house.ok(
        "NotebookEdit",
        json!({"notebook_path": "n.ipynb", "cell_id": id, "edit_mode": "delete"}),
    );
    assert!(
        text.contains("deleted cell 1") && text.ends_with("1 cells now"),
        "{text}"
    );
    house.fails(
        "NotebookEdit",
        json!({"notebook_path": "n.ipynb", "cell_id": id, "edit_mode": "delete"}),
    );
    house.fails(
        "NotebookEdit",
        json!({"notebook_path": "n.txt", "edit_mode": "insert", "new_source": ""}),
    );
    assert_eq!(house.gate.plans.len(), 3);
}
