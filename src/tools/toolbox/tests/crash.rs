//! SIGKILL at every step of a change. The test binary is started again as the
//! victim, told on its standard input what to do and where to die.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::*;

/// This module, as the test harness names it.
const VICTIM: &str = "tools::toolbox::tests::crash::victim";

#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    base: PathBuf,
    die_at: String,
    tool: String,
    input: Value,
}

/// Not a test of its own: run by the others, in a process that dies.
#[test]
#[ignore = "started by the crash tests, and dies"]
fn victim() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("orders");
    let Ok(orders) = serde_json::from_str::<Orders>(&line) else {
        // Somebody runs all ignored tests.
        return;
    };
    crate::journal::crash::arm(&orders.die_at);
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    let house = House {
        toolbox: threaded(setup(&orders.base, Capability::Coding)),
        _dir: tempfile::tempdir().expect("tempdir"),
        base: orders.base,
    };
    if orders.tool == "Write" {
        runtime.block_on(house.ask("Read", json!({"file_path": orders.input["file_path"]})));
    }
    runtime.block_on(house.ask(&orders.tool, orders.input));
    println!("survived");
}

/// Runs a victim to its death; `false` when it survived.
fn dies(orders: &Orders) -> bool {
    let program = std::env::current_exe().expect("this binary");
    let mut victim = Command::new(program)
        .args([
            VICTIM,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("spawn");
    let mut stdin = victim.stdin.take().expect("stdin");
    let line = serde_json::to_string(orders).expect("json");
    writeln!(stdin, "{line}").expect("orders");
    drop(stdin);
    let ended = victim.wait_with_output().expect("wait");
    match ended.status.signal() {
        Some(9) => true,
        Some(other) => panic!("signal {other}"),
        None => {
            let said = String::from_utf8_lossy(&ended.stdout).into_owned();
            assert!(said.contains("survived"), "{said}");
            false
        }
    }
}

/// The steps of a change in their order.
const STEPS: [&str; 9] = [
    "staged",
    "begin",
    "blob kept",
    "inserted",
    "begun",
    "proceeded",
    "named",
    "published",
    "flushed",
];

fn at(step: &str) -> usize {
    STEPS
        .iter()
        .position(|known| *known == step)
        .expect("a step")
}

/// Kills a change at `step` and checks everything that a crash must leave.
fn check(step: &str, before: Option<&[u8]>, tool: &str, path: &str, input: Value, after: &[u8]) {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = fs::canonicalize(dir.path()).expect("canonical");
    let file = base.join("w").join(path);
    fs::create_dir(base.join("w")).expect("mkdir");
    if let Some(before) = before {
        fs::write(&file, before).expect("write");
    }
    let orders = Orders {
        base: base.clone(),
        die_at: step.to_owned(),
        tool: tool.to_owned(),
        input,
    };
    assert!(dies(&orders), "{step} was never reached");

    // The file is old or new, whole, and which is known from the step.
    let is_new = at(step) >= at("published");
    let now = fs::read(&file).ok();
    let expected = if is_new { Some(after) } else { before };
    assert_eq!(now.as_deref(), expected, "{step}");

    // A record is there exactly when the intent was on the disk, and it says
    // what the file is.
    let setup = setup(&base, Capability::Coding);
    let workspace = Workspace::open_for(&setup.workspace, Some(&setup.host.home)).expect("open");
    let journal = Arc::clone(&setup.journal);
    let pending = journal
        .pending(workspace.id(), workspace.root())
        .expect("pending");
    let words: Vec<_> = pending.iter().map(|entry| entry.status.name()).collect();
    let recorded = at(step) >= at("begun");
    match (recorded, is_new) {
        (false, _) => assert!(words.is_empty(), "{step}: {words:?}"),
        (true, false) => assert_eq!(words, ["uncertain"], "{step}"),
        (true, true) => assert_eq!(words, ["committed"], "{step}"),
    }
    if recorded {
        let record = journal.of_run("run-1").expect("run").pop().expect("record");
        assert_eq!(
            journal.pre_image(&record).expect("kept").as_deref(),
            before,
            "{step}"
        );
    }

    // The next run finds the workspace without anything of ours in it, and the
    // same call goes through.
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    let house = House {
        toolbox: threaded(setup),
        _dir: dir,
        base,
    };
    let left: Vec<_> = fs::read_dir(house.base.join("w"))
        .expect("list")
        .map(|entry| entry.expect("entry").file_name())
        .filter(|name| name.to_string_lossy().starts_with(".delegate-"))
        .collect();
    assert!(left.is_empty(), "{step}: {left:?}");
    if tool == "Write" {
        runtime.block_on(house.ask("Read", json!({"file_path": path})));
    }
    let again = runtime.block_on(house.ask(tool, orders.input));
    assert!(again.ok || is_new, "{step}: {}", again.text);
    assert_eq!(fs::read(&file).expect("read"), after, "{step}");
}

#[test]
fn a_new_file_survives_a_kill_at_every_step() {
    for step in STEPS {
        // A new file is linked into place in one step.
        if step != "named" {
            let input = json!({"file_path": "new", "content": "content\n"});
            check(step, None, "Write", "new", input, b"content\n");
        }
    }
}

#[test]
fn a_large_file_survives_a_kill_at_every_step_of_an_edit() {
    let before = format!("{}old\n", "x".repeat(100_000));
    let after = before.replace("old", "new");
    for step in STEPS {
        let input = json!({"file_path": "f", "old_string": "old", "new_string": "new"});
        check(
            step,
            Some(before.as_bytes()),
            "Edit",
            "f",
            input,
            after.as_bytes(),
        );
    }
}

#[test]
fn a_new_folder_and_a_replacement_survive_too() {
    for step in ["begun", "published"] {
        let input = json!({"file_path": "a/b/new", "content": "content\n"});
        check(step, None, "Write", "a/b/new", input, b"content\n");
        let input = json!({"file_path": "f", "content": "new\n"});
        check(step, Some(b"old\n"), "Write", "f", input, b"new\n");
    }
}

#[test]
fn a_victim_that_is_told_to_die_nowhere_survives() {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = fs::canonicalize(dir.path()).expect("canonical");
    fs::create_dir(base.join("w")).expect("mkdir");
    let orders = Orders {
        base,
        die_at: "nowhere".to_owned(),
        tool: "Write".to_owned(),
        input: json!({"file_path": "new", "content": "x"}),
    };
    assert!(!dies(&orders));
}
