//! The honest worker in a thread, the real client, the real journal; no jail.

mod crash;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::super::start::Hold;
use super::super::{BashFacts, canonical, worker};
use super::folder::STALE;
use super::*;
use crate::journal::Journal;
use crate::provider::ToolUse;

/// Workers as threads of this process.
pub(super) struct Threads;

impl Starter for Threads {
    fn start(&self, hello: &Hello) -> Result<(StdStream, Hold), ToolboxError> {
        let (mut ours, theirs) = StdStream::pair().expect("pair");
        std::thread::spawn(move || worker::serve(theirs));
        client::greet(&mut ours, hello).map_err(|why| ToolboxError::Worker { why })?;
        Ok((ours, Hold::nothing()))
    }
}

fn no_enforcement() -> Enforcement {
    Enforcement {
        backend: "none".to_owned(),
        form: Form::None,
        guarantees: BTreeMap::new(),
    }
}

pub(super) fn setup(base: &Path, capability: Capability) -> ToolboxSetup {
    let state_dir = base.join("state");
    ToolboxSetup {
        workspace: base.join("w"),
        capability,
        run_id: "run-1".to_owned(),
        journal: Arc::new(Journal::open(&state_dir).expect("journal")),
        state_dir,
        bash_timeout: Duration::from_secs(10),
        vision: true,
        launcher: jail::Launcher {
            program: PathBuf::from("/nonexistent/delegate"),
        },
        host: jail::Host {
            home: base.join("home"),
            ..jail::Host::default()
        },
        observe: jail::Observe::Off,
    }
}

/// A toolbox whose worker is a thread; without Bash.
pub(super) fn threaded(setup: ToolboxSetup) -> Toolbox {
    let workspace = Workspace::open_for(&setup.workspace, Some(&setup.host.home)).expect("open");
    let folder = RunFolder::make(&StateDir::new(&setup.state_dir), &setup.run_id).expect("folder");
    let leftovers = setup.journal.leftovers(workspace.id()).expect("leftovers");
    let hello = start::hello(&setup, &workspace, leftovers);
    Toolbox::assemble(
        setup,
        workspace,
        no_enforcement(),
        Arc::new(Threads),
        hello,
        None,
        folder,
    )
    .expect("toolbox")
}

struct House {
    _dir: tempfile::TempDir,
    base: PathBuf,
    toolbox: Toolbox,
}

impl House {
    fn new() -> House {
        Self::of(Capability::Coding)
    }

    fn of(capability: Capability) -> House {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = fs::canonicalize(dir.path()).expect("canonical");
        fs::create_dir(base.join("w")).expect("mkdir");
        House {
            toolbox: threaded(setup(&base, capability)),
            _dir: dir,
            base,
        }
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.base.join("w").join(name), content).expect("write");
    }

    fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.base.join("w").join(name)).expect("read")
    }

    async fn ask(&self, name: &str, input: Value) -> ToolOutput {
        let call = ToolUse {
            id: "1".to_owned(),
            name: name.to_owned(),
            input: input.as_object().expect("object").clone(),
            malformed: None,
        };
        let call = canonical(&call, Capability::Coding, None).expect("canonical");
        self.toolbox.call(&call, 1, &CancellationToken::new()).await
    }

    fn pending(&self) -> Vec<crate::journal::Pending> {
        let ledger = &self.toolbox.ledger;
        let root = self.toolbox.workspace.root();
        ledger
            .journal
            .pending(&ledger.workspace, root)
            .expect("pending")
    }
}

#[tokio::test]
async fn a_write_is_one_record_that_matches_and_a_refused_one_is_none() {
    let house = House::new();
    let done = house
        .ask(
            "Write",
            json!({"file_path": "out.txt", "content": "line1\nline2\n"}),
        )
        .await;
    assert!(done.ok, "{}", done.text);
    assert_eq!(house.get("out.txt"), b"line1\nline2\n");
    let mutation = done.mutation.expect("mutation");
    assert_eq!(
        (mutation.status.as_str(), mutation.path.as_str()),
        ("committed", "out.txt")
    );
    assert!(mutation.diff.expect("diff").contains("+line2"));
    let pending = house.pending();
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].transaction_id, mutation.transaction_id);
    assert_eq!(
        pending[0].sha256,
        Some(crate::journal::Digest::of(b"line1\nline2\n"))
    );
    assert_eq!(pending[0].run_id, "run-1");

    house.put("other", "x");
    let refused = house
        .ask("Write", json!({"file_path": "other", "content": "y"}))
        .await;
    assert!(!refused.ok && refused.mutation.is_none());
    let outside = house
        .ask("Write", json!({"file_path": "../x", "content": "y"}))
        .await;
    assert!(
        outside
            .refused
            .expect("refused")
            .contains("outside the workspace")
    );
    assert_eq!(house.pending().len(), 1);
}

#[tokio::test]
async fn the_replay_cases_of_these_rooms_hold() {
    let house = House::new();
    // o04
    house.put("list.txt", "v12.rs\nvd+.rs\n");
    let grep = json!({"pattern": "v\\d+\\.rs", "path": ".", "output_mode": "content"});
    assert!(house.ask("Grep", grep).await.text.contains("v12.rs"));
    // o19
    house.put("a.txt", "alpha\n");
    assert!(
        house
            .ask(" read ", json!({"file_path": "a.txt"}))
            .await
            .text
            .contains("alpha")
    );
    // o20
    house.put("w.cs", b"\xef\xbb\xbfone\r\ntwo\r\ndup\r\ndup\r\n");
    assert!(house.ask("Read", json!({"file_path": "w.cs"})).await.ok);
    let edit =
        |old: &str, new: &str| json!({"file_path": "w.cs", "old_string": old, "new_string": new});
    assert!(house.ask("Edit", edit("one\ntwo\n", "one\nTWO\n")).await.ok);
    let unclear = house.ask("Edit", edit("dup", "DUP")).await;
    assert!(!unclear.ok && unclear.text.contains("not unique"));
    assert_eq!(
        house.get("w.cs"),
        b"\xef\xbb\xbfone\r\nTWO\r\ndup\r\ndup\r\n"
    );
    // o22
    let missing = house.ask("Read", json!({"file_path": "nope.txt"})).await;
    assert!(!missing.ok && missing.text.contains("does not exist"));
}

#[tokio::test]
async fn the_older_names_have_their_forms() {
    let house = House::new();
    let wrote = house
        .ask("write_file", json!({"path": "f", "content": "one\n"}))
        .await;
    assert!(
        wrote.text.contains("4 bytes") && wrote.text.contains("f"),
        "{}",
        wrote.text
    );
    let read = house.ask("read_file", json!({"path": "f"})).await;
    assert_eq!(read.text, "f [lines 1-1 of 1]\n1\tone");
}

#[tokio::test]
async fn an_image_comes_as_an_image() {
    let house = House::new();
    house.put("i.png", b"\x89PNG\r\n\x1a\nrest");
    let done = house.ask("Read", json!({"file_path": "i.png"})).await;
    let image = done.image.expect("image");
    assert_eq!(image.media_type, "image/png");
    assert_eq!(image.data, "iVBORw0KGgpyZXN0");
}

#[tokio::test]
async fn large_arguments_arrive_whole_and_too_large_ones_are_refused() {
    let house = House::new();
    let content = "\"\\\n\u{1}é".repeat(1 << 20);
    let done = house
        .ask("Write", json!({"file_path": "f", "content": content}))
        .await;
    assert!(done.ok, "{}", done.text);
    assert_eq!(house.get("f"), content.as_bytes());
    let huge = "x".repeat((8 << 20) + 1);
    let done = house
        .ask("Write", json!({"file_path": "g", "content": huge}))
        .await;
    assert!(!done.ok && done.text.contains("at most"));
    let odd = "\u{1}".repeat(9 << 20);
    let done = house
        .ask(
            "Edit",
            json!({"file_path": "f", "old_string": odd, "new_string": odd.clone() + "x"}),
        )
        .await;
    assert!(
        !done.ok && done.text.starts_with("ERROR: "),
        "{}",
        &done.text[..100]
    );
    assert!(
        house
            .ask("Read", json!({"file_path": "f", "limit": 1}))
            .await
            .ok
    );
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_stops_every_change() {
    let house = House::new();
    house.put("f", "old");
    let file = house.base.join("state/delegate.db");
    fs::create_dir(&file).expect("a folder where the database should be");
    let write = house
        .ask("Write", json!({"file_path": "new", "content": "x"}))
        .await;
    assert!(
        !write.ok && write.text.contains("journal"),
        "{}",
        write.text
    );
    assert!(!house.base.join("w/new").exists());
    let edit = json!({"file_path": "f", "old_string": "old", "new_string": "x"});
    assert!(!house.ask("Edit", edit.clone()).await.ok);
    assert_eq!(house.get("f"), b"old");
    fs::remove_dir(&file).expect("remove");
    assert!(house.ask("Edit", edit).await.ok, "the twin");
}

#[tokio::test]
async fn a_read_only_toolbox_reads_and_nothing_more() {
    let house = House::of(Capability::Readonly);
    house.put("f", "x");
    assert!(house.ask("Read", json!({"file_path": "f"})).await.ok);
    for (name, input) in [
        ("Write", json!({"file_path": "g", "content": "x"})),
        (
            "Edit",
            json!({"file_path": "f", "old_string": "x", "new_string": "y"}),
        ),
        ("Bash", json!({"command": "touch g"})),
    ] {
        assert!(house.ask(name, input).await.refused.is_some(), "{name}");
    }
    assert_eq!(house.get("f"), b"x");
    assert!(house.pending().is_empty());
}

#[tokio::test]
async fn a_workspace_put_in_the_place_of_ours_is_not_worked_in() {
    let house = House::new();
    fs::rename(house.base.join("w"), house.base.join("old")).expect("rename");
    fs::create_dir(house.base.join("w")).expect("mkdir");
    let done = house
        .ask("Write", json!({"file_path": "f", "content": "x"}))
        .await;
    assert!(!done.ok && done.text.contains("no longer the folder"));
    assert!(!house.base.join("w/f").exists() && !house.base.join("old/f").exists());
}

#[tokio::test]
async fn a_cancelled_or_dropped_call_costs_the_worker_and_the_next_has_a_new_one() {
    let house = House::new();
    house.put("f", "x");
    let read = || ToolCall {
        tool: "Read",
        args: json!({"file_path": "f"})
            .as_object()
            .expect("object")
            .clone(),
        renamed: false,
        alias: None,
    };
    let cancel = CancellationToken::new();
    cancel.cancel();
    let never = house.toolbox.call(&read(), 1, &cancel).await;
    assert!(!never.ok && never.text.contains("cancelled"));
    // Polled once and dropped: the answer is on its way to nobody.
    let live = CancellationToken::new();
    let read = read();
    let mut call = Box::pin(house.toolbox.call(&read, 1, &live));
    let _ = futures_util::poll!(&mut call);
    drop(call);
    house.put("g", "y");
    let next = house.ask("Read", json!({"file_path": "g"})).await;
    assert_eq!(next.text, "[lines 1-1 of 1]\n1\ty");
}

#[test]
fn a_run_id_that_is_no_name_and_an_old_folder() {
    let dir = tempfile::tempdir().expect("tempdir");
    let state = StateDir::new(dir.path().join("state"));
    for bad in ["", "..", "a/b", "a b", &"x".repeat(200)] {
        let error = RunFolder::make(&state, bad).expect_err(bad);
        assert_eq!(error.code(), "run_id");
    }
    let old = state.run("old");
    fs::create_dir_all(old.join("output")).expect("mkdir");
    fs::create_dir(state.run("young")).expect("mkdir");
    let past = SystemTime::now() - 2 * STALE;
    fs::File::open(&old)
        .and_then(|file| file.set_modified(past))
        .expect("times");
    for made in ["", "runs"] {
        use std::os::unix::fs::PermissionsExt;
        let path = state.root().join(made);
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("chmod");
    }
    let folder = RunFolder::make(&state, "new").expect("folder");
    assert!(folder.outputs().is_dir() && !old.exists() && state.run("young").exists());
    drop(folder);
    assert!(!state.run("new").exists());
}

#[test]
fn of_two_answers_the_weaker_counts() {
    use jail::{Guarantee, Strength};
    let one = |strength, form| Enforcement {
        backend: "linux".to_owned(),
        form,
        guarantees: BTreeMap::from([(
            Guarantee::Reads,
            Held {
                strength,
                by: String::new(),
            },
        )]),
    };
    let strong = one(Strength::Enforced, Form::Full);
    let weak = one(Strength::Detected, Form::Narrow);
    assert_eq!(weaker(&strong, &weak), weak);
    assert_eq!(weaker(&weak, &strong), weak);
}

/// Only so that a change of the facts' shape is noticed here as well.
#[test]
fn a_bash_fact_is_plain_data() {
    let facts = BashFacts {
        exit_code: Some(0),
        timed_out: false,
        survivors: 0,
        denials: Vec::new(),
    };
    let json = serde_json::to_value(&facts).expect("json");
    assert_eq!(
        json,
        json!({"exit_code": 0, "timed_out": false, "survivors": 0, "denials": []})
    );
}
