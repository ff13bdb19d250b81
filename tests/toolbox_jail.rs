//! The tools of a run in the real jail: the worker in its cell, Bash in its
//! own. Every refusal stands beside an act that succeeds.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{delegate, forms, processes_with};
use delegate::journal::{Digest, Journal};
use delegate::provider::ToolUse;
use delegate::tools::{Capability, ToolOutput, Toolbox, ToolboxError, ToolboxSetup, canonical};
use delegate::workspace::WorkspaceId;
use jail::{Form, Strength};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct House {
    _dir: tempfile::TempDir,
    home: PathBuf,
    ws: PathBuf,
    state: PathBuf,
    journal: Arc<Journal>,
}

impl House {
    fn new() -> House {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().canonicalize().expect("canonical");
        let (home, state) = (base.join("home"), base.join("state"));
        let ws = home.join("ws");
        for made in [&ws, &home.join(".ssh"), &home.join("beside")] {
            fs::create_dir_all(made).expect("mkdir");
        }
        fs::write(home.join(".ssh/id_rsa"), "canary").expect("write");
        fs::write(home.join("beside/file"), "neighbour").expect("write");
        House {
            journal: Arc::new(Journal::open(&state).expect("journal")),
            _dir: dir,
            home,
            ws,
            state,
        }
    }

    fn setup(&self, capability: Capability) -> ToolboxSetup {
        ToolboxSetup {
            workspace: self.ws.clone(),
            capability,
            run_id: "run-1".to_owned(),
            state_dir: self.state.clone(),
            journal: Arc::clone(&self.journal),
            bash_timeout: Duration::from_secs(20),
            vision: false,
            launcher: jail::Launcher {
                program: delegate(),
            },
            host: jail::Host {
                home: self.home.clone(),
                path: ["/usr/bin", "/bin"].map(PathBuf::from).to_vec(),
                env: vec![("PATH".into(), "/usr/bin:/bin".into())],
                user: "somebody".to_owned(),
            },
            observe: jail::Observe::Writes,
        }
    }

    fn open(&self, capability: Capability, form: &str) -> Toolbox {
        let form = match form {
            "full" => Form::Full,
            _ => Form::Narrow,
        };
        Toolbox::open_form(self.setup(capability), Some(form)).expect("toolbox")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.ws.join(name)
    }

    fn pending(&self) -> Vec<String> {
        let id = WorkspaceId::of(&self.ws).expect("identity");
        let pending = self.journal.pending(&id, &self.ws).expect("pending");
        pending
            .into_iter()
            .map(|entry| format!("{} {} {}", entry.tool, entry.path, entry.status.name()))
            .collect()
    }
}

async fn ask_with(
    toolbox: &Toolbox,
    name: &str,
    input: Value,
    cancel: &CancellationToken,
) -> ToolOutput {
    let call = ToolUse {
        id: "1".to_owned(),
        name: name.to_owned(),
        input: input.as_object().expect("object").clone(),
        malformed: None,
    };
    let call = canonical(&call, Capability::Coding, None).expect("canonical");
    toolbox.call(&call, 1, cancel).await
}

async fn ask(toolbox: &Toolbox, name: &str, input: Value) -> ToolOutput {
    ask_with(toolbox, name, input, &CancellationToken::new()).await
}

async fn bash(toolbox: &Toolbox, command: &str) -> ToolOutput {
    ask(toolbox, "Bash", json!({"command": command})).await
}

#[tokio::test]
async fn all_seven_tools_work_in_the_jail() {
    for form in forms() {
        let house = House::new();
        let toolbox = house.open(Capability::Coding, &form);
        let wrote = ask(
            &toolbox,
            "Write",
            json!({"file_path": "src/a.txt", "content": "one\ntwo\n"}),
        )
        .await;
        assert!(wrote.ok, "{form}: {}", wrote.text);
        let read = ask(
            &toolbox,
            "Read",
            json!({"file_path": house.file("src/a.txt")}),
        )
        .await;
        assert_eq!(read.text, "[lines 1-2 of 2]\n1\tone\n2\ttwo", "{form}");
        let edit = json!({"file_path": "src/a.txt", "old_string": "two", "new_string": "TWO"});
        assert!(ask(&toolbox, "Edit", edit).await.ok, "{form}");
        let ran = bash(
            &toolbox,
            "cat src/a.txt; pwd; echo $BASH_VERSION | head -c 1",
        )
        .await;
        let here = house.ws.display();
        assert_eq!(ran.text, format!("[exit 0]\none\nTWO\n{here}\n5"), "{form}");
        assert_eq!(
            ask(&toolbox, "Glob", json!({"pattern": "*.txt"}))
                .await
                .text,
            "src/a.txt"
        );
        assert_eq!(
            ask(&toolbox, "Grep", json!({"pattern": "TWO"})).await.text,
            "src/a.txt:2: TWO"
        );
        let cell = json!({"notebook_path": "n.ipynb", "edit_mode": "insert", "new_source": "1"});
        assert!(ask(&toolbox, "NotebookEdit", cell).await.ok, "{form}");
        assert_eq!(
            fs::read(house.file("src/a.txt")).expect("read"),
            b"one\nTWO\n"
        );
        assert_eq!(
            house.pending(),
            [
                "Write src/a.txt superseded",
                "Edit src/a.txt committed",
                "NotebookEdit n.ipynb committed"
            ]
        );
        toolbox.close().await;
        assert!(!house.state.join("runs/run-1").exists(), "{form}");
    }
}

#[tokio::test]
async fn what_the_kernel_enforces_is_told() {
    for form in forms() {
        let house = House::new();
        for capability in [Capability::Coding, Capability::Readonly] {
            let toolbox = house.open(capability, &form);
            let told = toolbox.enforcement();
            for guarantee in [jail::Guarantee::Reads, jail::Guarantee::Writes] {
                assert_eq!(
                    told.guarantees[&guarantee].strength,
                    Strength::Enforced,
                    "{form}"
                );
            }
            toolbox.close().await;
        }
    }
}

#[tokio::test]
async fn file_tools_stay_inside() {
    for form in forms() {
        let house = House::new();
        symlink("../.ssh/id_rsa", house.file("link")).expect("link");
        symlink("../beside", house.file("dir")).expect("link");
        fs::write(house.file("AGENTS.md"), "rules\n").expect("write");
        fs::write(house.file("f"), "x").expect("write");
        let toolbox = house.open(Capability::Coding, &form);
        for path in ["link", "dir/file", "../.ssh/id_rsa", "/etc/passwd"] {
            let read = ask(&toolbox, "Read", json!({"file_path": path})).await;
            assert!(read.refused.is_some(), "{form} {path}: {}", read.text);
            let write = ask(
                &toolbox,
                "Write",
                json!({"file_path": path, "content": "x"}),
            )
            .await;
            assert!(write.refused.is_some(), "{form} {path}: {}", write.text);
        }
        assert!(
            ask(&toolbox, "Read", json!({"file_path": "AGENTS.md"}))
                .await
                .ok
        );
        let agents = json!({"file_path": "AGENTS.md", "old_string": "rules", "new_string": "none"});
        assert!(
            ask(&toolbox, "Edit", agents).await.refused.is_some(),
            "{form}"
        );
        let twin = json!({"file_path": "f", "old_string": "x", "new_string": "y"});
        assert!(ask(&toolbox, "Edit", twin).await.ok, "{form}");
        toolbox.close().await;
        assert_eq!(
            fs::read(house.home.join("beside/file")).expect("read"),
            b"neighbour"
        );
        assert_eq!(house.pending(), ["Edit f committed"]);
    }
}

#[tokio::test]
async fn bash_is_held_by_the_kernel_and_the_refusal_is_told() {
    for form in forms() {
        let house = House::new();
        let toolbox = house.open(Capability::Coding, &form);
        let secret = house.home.join(".ssh/id_rsa");
        let read = bash(&toolbox, &format!("cat {}", secret.display())).await;
        assert!(
            !read.ok && !read.text.contains("canary"),
            "{form}: {}",
            read.text
        );
        assert!(
            fs::read(&secret).is_ok(),
            "the twin: outside the jail it is there"
        );

        let beside = house.home.join("beside/file");
        let write = bash(&toolbox, &format!("echo pwned > {}", beside.display())).await;
        assert!(!write.ok, "{form}: {}", write.text);
        assert_eq!(fs::read(&beside).expect("read"), b"neighbour");
        let facts = write.bash.expect("facts");
        if form == "full" {
            let named = facts.denials.iter().any(|denial| denial.path == beside);
            assert!(named, "{:?}", facts.denials);
            assert!(
                write.text.contains("[the jail refused: write"),
                "{}",
                write.text
            );
        }
        let inside = bash(
            &toolbox,
            "echo fine > f && cat f && echo fine > /tmp/x && cat /tmp/x",
        )
        .await;
        if form == "full" {
            assert_eq!(inside.text, "[exit 0]\nfine\nfine", "{form}");
        }
        let twin = bash(&toolbox, "echo fine > f && cat f").await;
        assert_eq!(twin.text, "[exit 0]\nfine", "{form}");
        toolbox.close().await;
    }
}

#[tokio::test]
async fn a_read_only_run_cannot_write_even_past_its_tools() {
    for form in forms() {
        let house = House::new();
        fs::write(house.file("f"), "x").expect("write");
        let toolbox = house.open(Capability::Readonly, &form);
        assert!(
            ask(&toolbox, "Read", json!({"file_path": "f"})).await.ok,
            "{form}"
        );
        assert!(
            ask(&toolbox, "Grep", json!({"pattern": "x"})).await.ok,
            "{form}"
        );
        for (name, input) in [
            ("Write", json!({"file_path": "g", "content": "y"})),
            (
                "Edit",
                json!({"file_path": "f", "old_string": "x", "new_string": "y"}),
            ),
            ("Bash", json!({"command": "touch g"})),
        ] {
            let done = ask(&toolbox, name, input).await;
            assert!(done.refused.is_some(), "{form} {name}: {}", done.text);
        }
        toolbox.close().await;
        assert_eq!(fs::read(house.file("f")).expect("read"), b"x");
        assert!(!house.file("g").exists());
    }
}

#[tokio::test]
async fn bash_ends_with_everything_that_it_started() {
    for form in forms() {
        let house = House::new();
        let toolbox = house.open(Capability::Coding, &form);
        let input = bash(&toolbox, "cat; echo after-cat").await;
        assert_eq!(input.text, "[exit 0]\nafter-cat", "{form}");
        let started = Instant::now();
        let back = bash(&toolbox, "sleep 71.25 & setsid sleep 71.25 & echo started").await;
        assert!(started.elapsed() < Duration::from_secs(8), "{form}");
        assert!(
            back.ok && back.text.starts_with("[exit 0]\nstarted"),
            "{form}: {}",
            back.text
        );
        assert!(back.bash.expect("facts").survivors >= 2, "{form}");
        assert_eq!(
            processes_with("sleep 71.25"),
            Vec::<String>::new(),
            "{form}"
        );

        let started = Instant::now();
        let command = json!({"command": "echo part; sleep 72.25 & sleep 72.25", "timeout": 1});
        let slow = ask(&toolbox, "Bash", command).await;
        assert!(started.elapsed() < Duration::from_secs(3), "{form}");
        assert!(
            slow.text.starts_with("ERROR: ") && slow.text.contains("\npart"),
            "{}",
            slow.text
        );
        assert!(slow.bash.expect("facts").timed_out);
        assert_eq!(
            processes_with("sleep 72.25"),
            Vec::<String>::new(),
            "{form}"
        );

        let cancel = CancellationToken::new();
        let call = ask_with(&toolbox, "Bash", json!({"command": "sleep 73.25"}), &cancel);
        let stop = async {
            while processes_with("sleep 73.25").is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
        };
        let started = Instant::now();
        let (done, ()) = tokio::join!(call, stop);
        assert!(started.elapsed() < Duration::from_secs(5), "{form}");
        assert!(done.text.contains("cancelled"), "{form}: {}", done.text);
        assert_eq!(
            processes_with("sleep 73.25"),
            Vec::<String>::new(),
            "{form}"
        );
        // The cell serves on.
        assert!(bash(&toolbox, "true").await.ok, "{form}");
        toolbox.close().await;
    }
}

#[tokio::test]
async fn the_whole_of_a_long_output_can_be_paged_with_read() {
    for form in forms() {
        let house = House::new();
        let toolbox = house.open(Capability::Coding, &form);
        let ran = bash(&toolbox, "seq 1 20000").await;
        let path = "/run/delegate/output/1-stdout";
        assert!(ran.text.contains(path), "{form}: {}", &ran.text[..200]);
        assert!(ran.text.ends_with("20000"), "{form}");
        let page = json!({"file_path": path, "offset": 10_000, "limit": 2});
        let read = ask(&toolbox, "Read", page).await;
        assert_eq!(
            read.text, "[lines 10000-10001 of 20000]\n10000\t10000\n10001\t10001",
            "{form}"
        );
        let write = json!({"file_path": path, "content": "x"});
        assert!(
            ask(&toolbox, "Write", write).await.refused.is_some(),
            "{form}"
        );
        toolbox.close().await;
    }
}

#[tokio::test]
async fn the_environment_of_bash_holds_no_key_and_its_home_is_private() {
    for form in forms() {
        let house = House::new();
        let mut setup = house.setup(Capability::Coding);
        for name in [
            "DEEPSEEK_API_KEY",
            "OPENAI_API_KEY",
            "HTTPS_PROXY",
            "SECRET",
        ] {
            setup.host.env.push((name.into(), "canary-5ECRET".into()));
        }
        let form_of = if form == "full" {
            Form::Full
        } else {
            Form::Narrow
        };
        let toolbox = Toolbox::open_form(setup, Some(form_of)).expect("toolbox");
        let env = bash(&toolbox, "env; cat /proc/self/environ | tr '\\0' '\\n'").await;
        assert!(
            env.ok && !env.text.contains("canary"),
            "{form}: {}",
            env.text
        );
        assert!(env.text.contains("HOME="), "{form}");
        let kept = bash(
            &toolbox,
            "mkdir -p ~/.cache/x && echo kept > ~/.cache/x/f && cat ~/.cache/x/f",
        )
        .await;
        assert_eq!(kept.text, "[exit 0]\nkept", "{form}");
        toolbox.close().await;
        assert!(
            !house.home.join(".cache").exists(),
            "{form}: the real home is untouched"
        );
        assert!(
            !house.file(".cache").exists(),
            "{form}: and so is the workspace"
        );
    }
}

#[tokio::test]
async fn a_change_in_the_jail_keeps_mode_and_replaces_in_one_step() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    for form in forms() {
        let house = House::new();
        fs::write(house.file("run.sh"), "#!/bin/sh\r\necho old\r\n").expect("write");
        fs::set_permissions(house.file("run.sh"), fs::Permissions::from_mode(0o750))
            .expect("chmod");
        let before = fs::metadata(house.file("run.sh")).expect("stat");
        let toolbox = house.open(Capability::Coding, &form);
        let edit =
            json!({"file_path": "run.sh", "old_string": "echo old\n", "new_string": "echo new\n"});
        assert!(ask(&toolbox, "Edit", edit).await.ok, "{form}");
        let after = fs::metadata(house.file("run.sh")).expect("stat");
        assert_eq!(
            fs::read(house.file("run.sh")).expect("read"),
            b"#!/bin/sh\r\necho new\r\n"
        );
        assert_eq!(
            (after.mode(), after.uid(), after.gid()),
            (before.mode(), before.uid(), before.gid())
        );
        assert_ne!(
            after.ino(),
            before.ino(),
            "{form}: a new file took its place"
        );
        assert_eq!(fs::read_dir(&house.ws).expect("list").count(), 1, "{form}");
        toolbox.close().await;
    }
}

#[tokio::test]
async fn the_worker_is_replaced_when_it_was_lost() {
    for form in forms() {
        let house = House::new();
        fs::write(house.file("f"), "x").expect("write");
        let toolbox = house.open(Capability::Coding, &form);
        let cancel = CancellationToken::new();
        cancel.cancel();
        let lost = ask_with(&toolbox, "Read", json!({"file_path": "f"}), &cancel).await;
        assert!(!lost.ok, "{form}");
        let next = ask(&toolbox, "Read", json!({"file_path": "f"})).await;
        assert_eq!(next.text, "[lines 1-1 of 1]\n1\tx", "{form}");
        toolbox.close().await;
    }
}

#[tokio::test]
async fn a_coding_run_does_not_work_where_its_own_binary_lies() {
    let house = House::new();
    let program = house.file("delegate");
    fs::copy(delegate(), &program).expect("copy");
    let open = |capability| {
        let mut setup = house.setup(capability);
        setup.launcher.program.clone_from(&program);
        Toolbox::open(setup)
    };
    let refused = open(Capability::Coding).expect_err("coding");
    assert_eq!(refused.code(), "binary_in_workspace");
    open(Capability::Readonly)
        .expect("the twin: reading is fine")
        .close()
        .await;
}

#[tokio::test]
async fn a_folder_that_is_no_workspace_gives_no_tools() {
    let house = House::new();
    for (workspace, code) in [
        (house.home.clone(), "workspace_refused"),
        (PathBuf::from("/"), "workspace_refused"),
        (house.home.join(".ssh"), "workspace_refused"),
        (house.file("gone"), "workspace_unusable"),
    ] {
        let mut setup = house.setup(Capability::Coding);
        setup.workspace = workspace;
        let error: ToolboxError = Toolbox::open(setup).expect_err("refused");
        assert_eq!(error.code(), code);
    }
}

#[tokio::test]
async fn records_and_files_agree_after_many_changes() {
    let house = House::new();
    let toolbox = Toolbox::open(house.setup(Capability::Coding)).expect("toolbox");
    for at in 0..20 {
        let write = json!({"file_path": format!("d{}/f", at % 3), "content": format!("{at}\n")});
        let done = ask(&toolbox, "Write", write).await;
        assert!(done.ok, "{}", done.text);
    }
    toolbox.close().await;
    let id = WorkspaceId::of(&house.ws).expect("identity");
    let pending = house.journal.pending(&id, &house.ws).expect("pending");
    assert_eq!(pending.len(), 20);
    let current = |path: &Path| Digest::of(&fs::read(house.ws.join(path)).expect("read"));
    for entry in &pending[17..] {
        assert_eq!(entry.status.name(), "committed");
        assert_eq!(entry.sha256, Some(current(Path::new(&entry.path))));
    }
    assert!(
        pending[..17]
            .iter()
            .all(|entry| entry.status.name() == "superseded")
    );
}

#[tokio::test]
async fn a_file_that_may_not_be_written_is_not_replaced() {
    use std::os::unix::fs::PermissionsExt;
    for form in forms() {
        let house = House::new();
        fs::write(house.file("f"), "old").expect("write");
        let mode = |bits| fs::set_permissions(house.file("f"), fs::Permissions::from_mode(bits));
        mode(0o444).expect("chmod");
        let toolbox = house.open(Capability::Coding, &form);
        let edit = json!({"file_path": "f", "old_string": "old", "new_string": "new"});
        let refused = ask(&toolbox, "Edit", edit.clone()).await;
        assert!(
            !refused.ok && refused.text.contains("cannot be written"),
            "{form}: {}",
            refused.text
        );
        assert_eq!(fs::read(house.file("f")).expect("read"), b"old");
        mode(0o644).expect("chmod");
        assert!(ask(&toolbox, "Edit", edit).await.ok, "{form}: the twin");
        toolbox.close().await;
    }
}
