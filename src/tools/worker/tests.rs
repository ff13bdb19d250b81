use super::super::proto::{Outcome, Output};
use super::*;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Instant;

/// A gate that notes what it is asked, and may do something meanwhile.
#[derive(Default)]
struct Notes {
    plans: Vec<(Plan, Option<Vec<u8>>)>,
    refuse: Option<&'static str>,
    meanwhile: Option<Box<dyn FnMut()>>,
}

impl Gate for Notes {
    fn ask(&mut self, plan: Plan, present: Option<&[u8]>) -> Result<(), String> {
        self.plans.push((plan, present.map(<[u8]>::to_vec)));
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile();
        }
        self.refuse.map_or(Ok(()), |why| Err(why.to_owned()))
    }
}

struct House {
    _dir: tempfile::TempDir,
    base: PathBuf,
    worker: Worker,
    gate: Notes,
}

impl House {
    fn new() -> House {
        Self::with(|_| {})
    }

    fn with(alter: impl FnOnce(&mut Hello)) -> House {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = fs::canonicalize(dir.path()).expect("canonical");
        for made in ["w", "out", "spill"] {
            fs::create_dir(base.join(made)).expect("mkdir");
        }
        fs::write(base.join("out/secret"), "outside").expect("write");
        let found = fs::metadata(base.join("w")).expect("stat");
        let mut hello = Hello {
            version: VERSION,
            workspace: base.join("w"),
            dev: found.dev(),
            ino: found.ino(),
            readonly: false,
            vision: false,
            output: Some(Output {
                shown: PathBuf::from("/run/delegate/output"),
                at: base.join("spill"),
            }),
            leftovers: Vec::new(),
        };
        alter(&mut hello);
        House {
            worker: Worker::new(hello).expect("worker"),
            gate: Notes::default(),
            _dir: dir,
            base,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join("w").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        fs::write(path, content).expect("write");
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("read")
    }

    fn call(&mut self, tool: &str, args: Value) -> Answer {
        let args = args.as_object().expect("object").clone();
        self.worker.run(tool, &args, &mut self.gate).0
    }

    fn ok(&mut self, tool: &str, args: Value) -> String {
        let answer = self.call(tool, args);
        assert!(answer.ok, "{}", answer.text);
        answer.text
    }

    fn fails(&mut self, tool: &str, args: Value) -> String {
        let answer = self.call(tool, args);
        assert!(!answer.ok, "{}", answer.text);
        assert!(answer.text.starts_with("ERROR: "), "{}", answer.text);
        answer.text
    }

    fn refused(&mut self, tool: &str, args: Value) -> String {
        let answer = self.call(tool, args.clone());
        assert!(answer.refused.is_some(), "{tool} {args}: {}", answer.text);
        assert!(
            answer.text.starts_with("ERROR: refused: "),
            "{}",
            answer.text
        );
        answer.text
    }

    /// The names in the workspace.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.base.join("w")).expect("list");
        let mut names: Vec<_> = entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .into_string()
                    .expect("name")
            })
            .collect();
        names.sort();
        names
    }
}

// ---- Read

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

// ---- The edge

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

// ---- Write

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
    assert!(plan.diff.expect("diff").contains("+héllo"));
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

// ---- Races

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

// ---- Edit

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

// ---- NotebookEdit

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

// ---- Glob and Grep

#[test]
fn glob_is_sorted_before_it_is_cut_and_follows_ignore_rules() {
    let mut house = House::new();
    for at in (0..600).rev() {
        house.put(&format!("many/{at:03}.txt"), "");
    }
    for path in [
        ".git/config",
        ".gitignore",
        "target/x.rs",
        "src/a.rs",
        "src/deep/b.rs",
        ".github/c.rs",
    ] {
        house.put(path, "/target\n");
    }
    symlink("../out/secret", house.path("src/out.rs")).expect("link");
    symlink("a.rs", house.path("src/link.rs")).expect("link");
    symlink("../out", house.path("src/dir")).expect("link");
    let text = house.ok("Glob", json!({"pattern": "*.txt"}));
    assert_eq!(text.lines().count(), 501);
    assert!(text.starts_with("many/000.txt\nmany/001.txt\n"));
    assert!(text.ends_with("[limit reached: the first 500 of 600 files; narrow the pattern]"));
    let rust = ".github/c.rs\nsrc/a.rs\nsrc/deep/b.rs\nsrc/link.rs";
    assert_eq!(house.ok("Glob", json!({"pattern": "**/*.rs"})), rust);
    assert_eq!(
        house.ok("Glob", json!({"pattern": "src/*.rs"})),
        "src/a.rs\nsrc/link.rs"
    );
    assert_eq!(
        house.ok("Glob", json!({"pattern": "*.rs", "path": "src/deep"})),
        "src/deep/b.rs"
    );
    assert_eq!(
        house.ok("Glob", json!({"pattern": "*", "path": "target"})),
        "target/x.rs"
    );
    assert_eq!(
        house.ok("Glob", json!({"pattern": "*.zig"})),
        "No files match *.zig"
    );
    assert!(
        !house
            .ok("Glob", json!({"pattern": "**/*"}))
            .contains(".git/config")
    );
    house.fails("Glob", json!({"pattern": "a[b"}));
    house.fails("Glob", json!({"pattern": "*", "path": "src/a.rs"}));
}

#[test]
fn grep_shows_lines_files_counts_and_context() {
    let mut house = House::new();
    house.put("list.txt", "v12.rs\nvd+.rs\n");
    house.put("src/a.py", "one\nTwo\nthree\ntwo\r\nend\n");
    house.put("src/b.rs", "two\n");
    house.put(".gitignore", "ignored\n");
    house.put("ignored", "two\n");
    house.put(".git/x", "two\n");
    house.put("bin", b"two\0");
    symlink("../out/secret", house.path("link")).expect("link");
    let grep = |house: &mut House, args: Value| house.ok("Grep", args);
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": r"v\d+\.rs", "path": ".", "output_mode": "content"})
        ),
        "list.txt:1: v12.rs"
    );
    assert_eq!(
        grep(&mut house, json!({"pattern": "two$"})),
        "src/a.py:4: two\nsrc/b.rs:1: two"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "two", "-i": true, "path": "src/a.py", "context": 1})
        ),
        "src/a.py-1- one\nsrc/a.py:2: Two\nsrc/a.py-3- three\nsrc/a.py:4: two\nsrc/a.py-5- end"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "one|end", "-A": 0, "-B": 1, "-n": false})
        ),
        "src/a.py: one\n--\nsrc/a.py- two\nsrc/a.py: end"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "two", "output_mode": "files_with_matches"})
        ),
        "src/a.py\nsrc/b.rs"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "(?i)two", "output_mode": "count"})
        ),
        "src/a.py:2\nsrc/b.rs:1"
    );
    assert_eq!(
        grep(&mut house, json!({"pattern": "two", "glob": "*.rs"})),
        "src/b.rs:1: two"
    );
    assert_eq!(
        grep(&mut house, json!({"pattern": "two", "type": "py"})),
        "src/a.py:4: two"
    );
    assert_eq!(
        grep(
            &mut house,
            json!({"pattern": "one.*three", "multiline": true})
        ),
        "src/a.py:1: one\nsrc/a.py:2: Two\nsrc/a.py:3: three"
    );
    assert_eq!(
        grep(&mut house, json!({"pattern": "outside"})),
        "No matches"
    );
    for bad in ["(?=x)", "(", r"a\nb"] {
        let text = house.fails("Grep", json!({"pattern": bad}));
        assert!(text.contains("no valid regular expression"), "{text}");
    }
    house.fails("Grep", json!({"pattern": "x", "type": "klingon"}));
    house.fails("Grep", json!({"pattern": "x", "path": "nope"}));
}

#[test]
fn grep_keeps_its_limits_and_the_first_by_path() {
    let mut house = House::new();
    for at in 0..50 {
        house.put(&format!("f{at:02}"), "hit\n".repeat(5));
    }
    let text = house.ok("Grep", json!({"pattern": "hit", "head_limit": 12}));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 13, "{text}");
    assert_eq!((lines[0], lines[11]), ("f00:1: hit", "f02:2: hit"));
    assert!(lines[12].starts_with("[limit reached"));
    let args = json!({"pattern": "hit", "head_limit": 3, "output_mode": "files_with_matches"});
    assert!(house.ok("Grep", args).starts_with("f00\nf01\nf02\n[limit"));
    let all = json!({"pattern": "hit", "head_limit": 250});
    assert!(!house.ok("Grep", all).contains("limit reached"));

    house.put("long", format!("{}needle", "a".repeat(200_000)));
    let started = Instant::now();
    house.ok("Grep", json!({"pattern": "(a+)+$", "path": "long"}));
    assert!(started.elapsed() < Duration::from_secs(10));
    let text = house.ok("Grep", json!({"pattern": "needle"}));
    assert!(text.ends_with("[line cut, 200006 bytes]") && text.chars().count() < 2100);
    house.put("wide", "x".repeat(1500).as_str().to_owned() + "\n");
    house.put("wides", format!("{}\n", "y".repeat(1500)).repeat(200));
    let text = house.ok("Grep", json!({"pattern": "y", "head_limit": 1000}));
    assert!(text.chars().count() <= MAX_TEXT && text.contains("limit reached"));
}

// ---- The worker itself

#[test]
fn leftovers_of_a_killed_run_go_and_nothing_else_does() {
    let temp = ".delegate-01ARZ3NDEKTSV4RRFFQ69G5FAV.tmp";
    let house = House::new();
    for name in [temp, "mine.tmp", ".delegate-short.tmp"] {
        house.put(name, "x");
    }
    let found = fs::metadata(house.base.join("w")).expect("stat");
    let hello = Hello {
        version: VERSION,
        workspace: house.base.join("w"),
        dev: found.dev(),
        ino: found.ino(),
        readonly: false,
        vision: false,
        output: None,
        leftovers: [
            "mine.tmp",
            ".delegate-short.tmp",
            "../out/secret",
            temp,
            "gone",
        ]
        .map(str::to_owned)
        .to_vec(),
    };
    Worker::new(hello.clone()).expect("worker");
    assert_eq!(house.names(), [".delegate-short.tmp", "mine.tmp"]);
    let other = Hello { ino: 1, ..hello };
    assert!(Worker::new(other).is_err());
}

#[test]
fn a_client_that_talks_nonsense_ends_the_worker_without_a_panic() {
    for bytes in [&b"x"[..], &[0xff; 64], b"\x02\0\0\0\0\0\0\0{}", &[0; 8]] {
        let (mut ours, theirs) = UnixStream::pair().expect("pair");
        let served = std::thread::spawn(move || serve(theirs));
        ours.write_all(bytes).expect("write");
        drop(ours);
        assert!(served.join().expect("no panic").is_err());
    }
}
