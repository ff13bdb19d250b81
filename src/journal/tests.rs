use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use rusqlite::Connection;

struct House {
    _dir: tempfile::TempDir,
    root: PathBuf,
    state: PathBuf,
    ws: WorkspaceId,
    journal: Journal,
}

impl House {
    fn new() -> House {
        Self::bounded(Bounds::default())
    }

    fn bounded(bounds: Bounds) -> House {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = fs::canonicalize(dir.path()).expect("canonical");
        let (root, state) = (base.join("w"), base.join("state"));
        fs::create_dir(&root).expect("mkdir");
        House {
            ws: WorkspaceId::of(&root).expect("identity"),
            journal: Journal::with_bounds(&state, bounds),
            _dir: dir,
            root,
            state,
        }
    }

    fn intent(&self, path: &str, after: Option<&[u8]>) -> Intent {
        let old = fs::read(self.root.join(path)).ok();
        Intent {
            run_id: "run-1".to_owned(),
            tool: "Write".to_owned(),
            workspace: self.ws.clone(),
            path: path.to_owned(),
            sha_before: old.as_deref().map(Digest::of),
            sha_after: after.map(Digest::of),
            pre_image: old,
            mode: Some(0o644),
            temp: Some(format!("{path}.tmp")),
        }
    }

    /// Records and makes a change, as a tool would.
    fn change(&self, path: &str, after: &[u8]) -> String {
        let id = self
            .journal
            .begin(&self.intent(path, Some(after)))
            .expect("begin");
        fs::write(self.root.join(path), after).expect("write");
        let done = Closed::Committed { warning: None };
        self.journal.close(&id, done).expect("close");
        id
    }

    fn pending(&self) -> Vec<Pending> {
        self.journal.pending(&self.ws, &self.root).expect("pending")
    }

    fn words(&self) -> Vec<(String, &'static str)> {
        self.pending()
            .into_iter()
            .map(|entry| (entry.path, entry.status.name()))
            .collect()
    }

    fn sql(&self, text: &str) {
        let raw = Connection::open(StateDir::new(&self.state).database()).expect("open");
        raw.execute_batch(text).expect("sql");
    }
}

fn named(words: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    words
        .iter()
        .map(|(path, word)| ((*path).to_owned(), *word))
        .collect()
}

#[test]
fn asking_an_unused_journal_creates_nothing() {
    let house = House::new();
    assert!(house.pending().is_empty());
    assert!(house.journal.of_run("run-1").expect("run").is_empty());
    assert_eq!(
        house
            .journal
            .acknowledge(&house.ws, &["0".repeat(32)])
            .expect("ack")
            .unknown,
        ["0".repeat(32)]
    );
    assert!(!house.state.exists());
}

#[test]
fn a_change_is_on_record_with_everything_it_needs() {
    let house = House::new();
    fs::write(house.root.join("f"), "old").expect("write");
    let id = house.change("f", b"new");
    let entry = house.pending().pop().expect("one");
    assert_eq!(entry.transaction_id, id);
    assert_eq!((entry.tool.as_str(), entry.path.as_str()), ("Write", "f"));
    assert_eq!(entry.sha256, Some(Digest::of(b"new")));
    assert_eq!(entry.sha256_before, Some(Digest::of(b"old")));
    assert_eq!(entry.status, Status::Committed);
    assert!(entry.at_ms > 1_500_000_000_000 && entry.order > 0);
    let record = house
        .journal
        .of_run("run-1")
        .expect("run")
        .pop()
        .expect("one");
    assert_eq!(record.mode, Some(0o644));
    assert_eq!(
        house.journal.pre_image(&record).expect("kept"),
        Some(b"old".to_vec())
    );
    assert!(record::is_id(&id));
}

#[test]
fn the_disk_decides_and_the_chain_explains() {
    let house = House::new();
    house.change("f", b"a");
    house.change("g", b"x");
    house.change("f", b"b");
    assert_eq!(
        house.words(),
        named(&[("f", "superseded"), ("g", "committed"), ("f", "committed")])
    );
    fs::write(house.root.join("g"), "somebody else").expect("write");
    fs::remove_file(house.root.join("f")).expect("remove");
    assert_eq!(
        house.words(),
        named(&[("f", "superseded"), ("g", "uncertain"), ("f", "uncertain")])
    );
    // A link in its place is not the file, whatever it leads to.
    fs::write(house.root.join("same"), "b").expect("write");
    symlink("same", house.root.join("f")).expect("link");
    assert_eq!(house.words()[2].1, "uncertain");
}

#[test]
fn an_intent_alone_tells_old_from_new() {
    let house = House::new();
    fs::write(house.root.join("f"), "old").expect("write");
    let intent = house.intent("f", Some(b"new"));
    let id = house.journal.begin(&intent).expect("begin");
    assert_eq!(house.words(), named(&[("f", "uncertain")]));
    assert_eq!(house.journal.leftovers(&house.ws).expect("left"), ["f.tmp"]);
    fs::write(house.root.join("f"), "new").expect("write");
    assert_eq!(house.words(), named(&[("f", "committed")]));
    // Another journal over the same folder, as after a restart.
    let again = Journal::open(&house.state).expect("open");
    let entry = again.pending(&house.ws, &house.root).expect("pending");
    assert_eq!(entry[0].transaction_id, id);
}

#[test]
fn an_aborted_change_is_not_pending_and_a_warning_is_kept() {
    let house = House::new();
    let id = house
        .journal
        .begin(&house.intent("f", Some(b"x")))
        .expect("begin");
    let outcome = Closed::Aborted {
        reason: "the file had changed".to_owned(),
    };
    house.journal.close(&id, outcome).expect("close");
    assert!(house.pending().is_empty());

    let id = house
        .journal
        .begin(&house.intent("f", Some(b"x")))
        .expect("begin");
    fs::write(house.root.join("f"), "x").expect("write");
    let outcome = Closed::Committed {
        warning: Some("the folder was not flushed".to_owned()),
    };
    house.journal.close(&id, outcome.clone()).expect("close");
    assert_eq!(house.pending()[0].warnings, ["the folder was not flushed"]);
    // Closed once: nothing can be said of it a second time.
    let twice = house.journal.close(&id, outcome).expect_err("twice");
    assert_eq!(twice.code(), "journal_unknown_id");
}

#[test]
fn acknowledging_is_exact() {
    let house = House::new();
    let ids = [
        house.change("a", b"1"),
        house.change("b", b"2"),
        house.change("c", b"3"),
    ];
    let ack = |ids: &[String]| house.journal.acknowledge(&house.ws, ids);
    let unknown = "f".repeat(32);

    for bad in [
        "zz".to_owned(),
        String::new(),
        ids[0].to_uppercase(),
        format!(" {}", ids[0]),
    ] {
        let refused = ack(&[ids[0].clone(), bad]).expect_err("bad form");
        assert_eq!(refused.code(), "journal_bad_id");
    }
    let many = vec![ids[0].clone(); 129];
    assert_eq!(ack(&many).expect_err("many").code(), "journal_too_many_ids");
    assert_eq!(
        house.pending().len(),
        3,
        "nothing was settled by any of these"
    );

    let done = ack(&[ids[1].clone(), unknown.clone(), ids[1].clone()]).expect("ack");
    assert_eq!(done.acknowledged, [ids[1].clone()]);
    assert_eq!(done.unknown, [unknown]);
    assert_eq!(done.remaining, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(
        house.words(),
        named(&[("a", "committed"), ("c", "committed")])
    );

    let again = ack(&[ids[1].clone()]).expect("again");
    assert!(again.acknowledged.is_empty());
    let rest = ack(&[ids[2].clone(), ids[0].clone()]).expect("rest");
    assert!(rest.remaining.is_empty());
    assert!(house.pending().is_empty());
    assert_eq!(fs::read(house.root.join("b")).expect("read"), b"2");
    assert_eq!(house.journal.of_run("run-1").expect("run").len(), 3);
}

#[test]
fn another_workspace_neither_sees_nor_settles_a_record() {
    let house = House::new();
    let id = house.change("f", b"x");
    let other = house.root.with_file_name("other");
    fs::create_dir(&other).expect("mkdir");
    let theirs = WorkspaceId::of(&other).expect("identity");
    assert!(
        house
            .journal
            .pending(&theirs, &other)
            .expect("pending")
            .is_empty()
    );
    let ack = house
        .journal
        .acknowledge(&theirs, std::slice::from_ref(&id))
        .expect("ack");
    assert_eq!(ack.unknown, [id]);
    assert_eq!(house.pending().len(), 1);
    // The same numbers, but a folder born at another time.
    if house.ws.born.is_some() {
        let reborn = WorkspaceId {
            born: Some("1.000000000".to_owned()),
            ..house.ws.clone()
        };
        assert!(house.journal.pending_ids(&reborn).expect("ids").is_empty());
    }
    // A root that is not the workspace: no verdict rather than a wrong one.
    let wrong = house
        .journal
        .pending(&house.ws, &other)
        .expect_err("wrong root");
    assert_eq!(wrong.code(), "journal_other_workspace");
}

#[test]
fn a_record_that_was_touched_stops_everything() {
    for touch in [
        "UPDATE mutation SET path = '../x'",
        "UPDATE mutation SET path = 'g'",
        "UPDATE mutation SET sha_after = 'zz'",
        "UPDATE mutation SET sha_before = NULL, pre_kind = 'absent', pre_hash = NULL, pre_size = NULL",
        "UPDATE mutation SET id = 'short'",
        "UPDATE mutation SET state = 'odd'",
        "UPDATE mutation SET seal = zeroblob(32)",
        "UPDATE mutation SET seal = zeroblob(3)",
        "UPDATE mutation SET at_ms = at_ms + 1",
        "DROP TABLE mutation",
    ] {
        let house = House::new();
        fs::write(house.root.join("f"), "old").expect("write");
        let id = house.change("f", b"x");
        house.sql(touch);
        let query = house.journal.pending(&house.ws, &house.root);
        let code = query.expect_err(touch).code();
        assert!(
            ["journal_damaged", "journal_unavailable"].contains(&code),
            "{touch}: {code}"
        );
        assert!(
            house.journal.acknowledge(&house.ws, &[id]).is_err(),
            "{touch}"
        );
        assert!(house.journal.pending_ids(&house.ws).is_err(), "{touch}");
    }
}

#[test]
fn an_unsafe_or_unwritable_state_folder_stops_everything() {
    let house = House::new();
    house.change("f", b"x");
    let file = StateDir::new(&house.state).database();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("chmod");
    let code = |journal: &Journal| {
        journal
            .pending(&house.ws, &house.root)
            .map_or_else(|error| error.code(), |_| "ok")
    };
    assert_eq!(code(&house.journal), "journal_unavailable");
    assert!(house.journal.begin(&house.intent("g", Some(b"x"))).is_err());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");
    assert_eq!(code(&house.journal), "ok");

    fs::rename(&file, house.state.join("elsewhere")).expect("rename");
    symlink("elsewhere", &file).expect("link");
    assert_eq!(code(&house.journal), "journal_unavailable");

    // A state folder that cannot be made: its parent is a file. (Modes would
    // not stop root, who runs these tests too.)
    fs::write(house.root.join("file"), "").expect("write");
    let nowhere = Journal::open(&house.root.join("file/state")).expect("open");
    let refused = nowhere
        .begin(&house.intent("g", Some(b"x")))
        .expect_err("begin");
    assert_eq!(refused.code(), "journal_unavailable");
}

#[test]
fn large_old_content_is_a_file_of_its_own_kept_once() {
    let house = House::new();
    let large = vec![b'z'; 100_000];
    for name in ["f", "g"] {
        fs::write(house.root.join(name), &large).expect("write");
        house.change(name, b"small");
    }
    let blobs = StateDir::new(&house.state).blobs();
    let entries: Vec<_> = fs::read_dir(&blobs).expect("list").flatten().collect();
    assert_eq!(entries.len(), 1);
    let mode = entries[0].metadata().expect("stat").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let records = house.journal.of_run("run-1").expect("run");
    for record in &records {
        assert_eq!(
            house
                .journal
                .pre_image(record)
                .expect("kept")
                .expect("some"),
            large
        );
    }
    // Changed or gone: said, and nothing else is troubled by it.
    fs::write(entries[0].path(), "odd").expect("write");
    let odd = house.journal.pre_image(&records[0]).expect_err("changed");
    assert_eq!(odd.code(), "journal_pre_image");
    fs::remove_file(entries[0].path()).expect("remove");
    assert!(house.journal.pre_image(&records[0]).is_err());
    assert_eq!(house.pending().len(), 2);
}

#[test]
fn what_is_over_the_bounds_is_said_and_settled_blobs_make_room() {
    let house = House::bounded(Bounds {
        inline: 10,
        one: 1000,
        total: 1500,
    });
    let kept = |path: &str| {
        let records = house.journal.of_run("run-1").expect("run");
        let record = records
            .iter()
            .rev()
            .find(|r| r.path == path)
            .expect("record");
        house.journal.pre_image(record).is_ok()
    };
    let overwrite = |path: &str, size: usize| {
        let fill = path.as_bytes()[0];
        fs::write(house.root.join(path), vec![fill; size]).expect("write");
        house.change(path, b"new")
    };
    overwrite("huge", 1001);
    assert!(!kept("huge"));
    let first = overwrite("a", 900);
    assert!(kept("a"));
    overwrite("b", 900);
    assert!(
        !kept("b"),
        "a is not settled, so it stays and b is not kept"
    );
    house.journal.acknowledge(&house.ws, &[first]).expect("ack");
    assert!(kept("a"), "settling alone drops nothing");
    overwrite("c", 900);
    assert!(kept("c") && !kept("a"));
    assert!(house.words().iter().any(|(path, _)| path == "b"));
}

#[test]
fn two_journals_on_one_folder_write_at_the_same_time() {
    let house = House::new();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let house = &house;
            scope.spawn(move || {
                let journal = Journal::open(&house.state).expect("open");
                for at in 0..25 {
                    let intent = house.intent(&format!("{writer}-{at}"), Some(b"x"));
                    let id = journal.begin(&intent).expect("begin");
                    let done = Closed::Committed { warning: None };
                    journal.close(&id, done).expect("close");
                }
            });
        }
    });
    let pending = house.pending();
    assert_eq!(pending.len(), 100);
    assert!(pending.windows(2).all(|pair| pair[0].order < pair[1].order));
}
