//! `delegate run` as a person and as a program meet it: a scripted model
//! server on loopback, a scratch home, the real binary, the real jail.

mod common;
#[path = "mcp_support/provider.rs"]
mod provider;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use provider::{Provider, Reply};
use serde_json::{Value, json};

const KEY: &str = "sk-test-5ECRET-0001";
const PATIENCE: Duration = Duration::from_secs(20);

/// A home and a project of its own for one test.
struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir().expect("scratch");
        for name in ["home", "project"] {
            fs::create_dir(dir.path().join(name)).expect("mkdir");
        }
        Scratch { dir }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        fs::write(path, text).expect("write");
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.project().join(name)).ok()
    }

    /// `delegate run`, with nothing of the tester's environment in it.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(common::delegate());
        command
            .arg("run")
            .args(args)
            .arg("--workspace")
            .arg(self.project())
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TEST_KEY", KEY)
            .stdin(Stdio::null());
        command
    }

    /// Runs against a scripted server, with `--json`.
    fn run(&self, provider: &Provider, args: &[&str]) -> Ran {
        let mut all = vec!["make it so", "--json", "--base-url", &provider.base_url];
        all.extend(["--key-env", "TEST_KEY", "--set", "retry_base_ms=1"]);
        if !args.contains(&"--model") {
            all.extend(["--model", "fake-model"]);
        }
        all.extend(args);
        Ran::of(self.command(&all).output().expect("delegate runs"))
    }
}

struct Ran {
    status: Option<i32>,
    outcome: Value,
    stderr: String,
}

impl Ran {
    fn of(output: Output) -> Ran {
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        let last = stdout.lines().last().unwrap_or_default();
        let outcome = serde_json::from_str(last)
            .unwrap_or_else(|why| panic!("last line {last:?}: {why}\n{stderr}"));
        assert!(!stdout.contains(KEY) && !stderr.contains(KEY), "the key");
        Ran {
            status: output.status.code(),
            outcome,
            stderr,
        }
    }

    fn str(&self, pointer: &str) -> &str {
        self.outcome
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no {pointer} in {:#}\n{}", self.outcome, self.stderr))
    }
}

fn call(name: &str, args: Value) -> Reply {
    Reply::Call(vec![(name.to_owned(), args)])
}

fn say(text: &str) -> Reply {
    Reply::Say(text.to_owned())
}

#[test]
fn a_task_runs_through_the_jail_and_its_outcome_is_the_last_line() {
    let scratch = Scratch::new();
    scratch.put("a.txt", "alpha\n");
    let provider = Provider::start(vec![
        call("Read", json!({"file_path": "a.txt"})),
        call("Write", json!({"file_path": "b.txt", "content": "bravo\n"})),
        call("Bash", json!({"command": "cat a.txt b.txt; env"})),
        say("All done."),
    ]);
    let ran = scratch.run(&provider, &[]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!(ran.str("/outcome"), "completed");
    assert_eq!(ran.str("/final_text"), "All done.");
    assert_eq!(scratch.read("b.txt").as_deref(), Some("bravo\n"));
    let executions = ran.outcome["executions"].as_array().expect("executions");
    let tools: Vec<_> = executions
        .iter()
        .map(|e| (e["tool"].as_str().unwrap_or_default(), e["ok"].as_bool()))
        .collect();
    assert_eq!(
        tools,
        [
            ("Read", Some(true)),
            ("Write", Some(true)),
            ("Bash", Some(true))
        ]
    );
    let bash = ran.str("/executions/2/output");
    assert!(bash.contains("alpha") && bash.contains("bravo"), "{bash}");
    assert!(!bash.contains("TEST_KEY"), "{bash}");
    assert_eq!(ran.outcome["mutations"].as_array().map(Vec::len), Some(1));
    assert_eq!(ran.outcome["turns"], 4);
    assert!(ran.outcome["enforcement"]["guarantees"].is_object());
    assert_eq!(ran.str("/run_id").len(), 26);
    for part in [
        "turn 1/",
        "Read a.txt ok",
        "Bash cat a.txt b.txt; env ok",
        "completed",
    ] {
        assert!(ran.stderr.contains(part), "{part} in:\n{}", ran.stderr);
    }
    let first = provider.request(PATIENCE);
    let system = first["messages"][0]["content"].as_str().expect("system");
    let project = fs::canonicalize(scratch.project()).expect("canonical");
    assert!(system.contains(&project.display().to_string()), "{system}");
}

#[test]
fn without_json_the_answer_is_all_of_stdout() {
    let scratch = Scratch::new();
    let provider = Provider::start(vec![say("The \u{1b}[31manswer.\n")]);
    let output = scratch
        .command(&["t", "--base-url", &provider.base_url, "--model", "m"])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "The [31manswer.\n");
}

#[test]
fn a_read_only_run_refuses_to_write_and_its_twin_does_not() {
    let write = call("Write", json!({"file_path": "n.txt", "content": "x"}));
    let scratch = Scratch::new();
    let provider = Provider::start(vec![write.clone(), say("No.")]);
    let ran = scratch.run(&provider, &["--readonly"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!(ran.outcome["executions"], json!([]));
    assert_eq!(ran.str("/refusals/0/tool"), "Write");
    assert_eq!(scratch.read("n.txt"), None);
    let tools = provider.request(PATIENCE)["tools"].clone();
    assert_eq!(tools.as_array().map(Vec::len), Some(3));

    let provider = Provider::start(vec![write, say("Yes.")]);
    let ran = scratch.run(&provider, &[]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!(scratch.read("n.txt").as_deref(), Some("x"));
}

#[test]
fn an_agent_of_the_project_is_its_body_and_its_tools() {
    let scratch = Scratch::new();
    scratch.put(
        ".claude/agents/reader.md",
        "---\ndescription: x\ntools: Read\n---\nLook twice.\n",
    );
    let provider = Provider::start(vec![say("Seen.")]);
    let ran = scratch.run(&provider, &["--agent", "reader"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let request = provider.request(PATIENCE);
    let system = request["messages"][0]["content"].as_str().expect("system");
    assert!(system.starts_with("MODE:LOCAL\n"), "{system}");
    assert!(system.ends_with("Look twice."), "{system}");
    assert_eq!(request["tools"].as_array().map(Vec::len), Some(1));
    let ran = scratch.run(&provider, &["--agent", "nobody"]);
    assert_eq!(ran.status, Some(2));
    assert_eq!(ran.str("/error_code"), "agent_not_found");
}

#[test]
fn what_is_wrong_with_the_command_line_is_said_before_anything_starts() {
    let scratch = Scratch::new();
    let provider = Provider::start(vec![say("never asked")]);
    let file = scratch.project().join("file");
    fs::write(&file, "").expect("write");
    let file = file.display().to_string();
    let home = scratch.home().display().to_string();
    for (args, code, words) in [
        (
            &["--set", "max_turn=3"][..],
            "config_unknown_key",
            "did you mean `max_turns`?",
        ),
        (
            &["--set", "max_turns=0"],
            "config_bad_value",
            "from 1 to 150",
        ),
        (&["--set", "max_turns"], "config_not_key_value", "KEY=VALUE"),
        (&["--key-env", "NOT_SET"], "config_key_missing", "NOT_SET"),
        (&["--base-url", "ftp://x"], "config_bad_url", "http"),
        (&["--workspace", &file], "workspace_not_a_folder", "folder"),
        (&["--workspace", &home], "workspace_refused", "refused"),
    ] {
        let mut command = Command::new(common::delegate());
        command
            .args(["run", "t", "--json"])
            .args(args)
            .current_dir(scratch.project())
            .env_clear()
            .env("HOME", scratch.home())
            .env("PATH", "/usr/bin:/bin");
        if !args.contains(&"--base-url") {
            command.args(["--base-url", &provider.base_url, "--model", "m"]);
        }
        let output = command.output().expect("runs");
        let ran = Ran::of(output);
        assert_eq!(ran.status, Some(2), "{args:?} {}", ran.stderr);
        assert_eq!(ran.str("/error_code"), code, "{args:?}");
        assert_eq!(ran.str("/outcome"), "failed");
        assert!(ran.stderr.contains(words), "{words} in {}", ran.stderr);
    }
    let output = scratch.command(&[]).output().expect("runs");
    assert_eq!(output.status.code(), Some(2), "no task at all");
    assert!(provider.events.try_recv().is_err(), "nothing was asked");
}

#[test]
fn a_failed_run_has_its_class_and_exit_status_one() {
    let scratch = Scratch::new();
    let bad = json!({"error": {"message": "no such model", "type": "invalid_request_error"}});
    let provider = Provider::start(vec![Reply::Status(400, bad)]);
    let ran = scratch.run(&provider, &[]);
    assert_eq!(ran.status, Some(1), "{}", ran.stderr);
    assert_eq!(ran.str("/error_class"), "bad_request");

    let provider = Provider::start(vec![call("Glob", json!({"pattern": "*"}))]);
    let ran = scratch.run(&provider, &["--set", "max_turns=2"]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(ran.str("/error_class"), "turn_limit");
    assert!(ran.str("/error_text").contains("max_turns (2)"));
    assert_eq!(ran.outcome["turns"], 2);
}

#[test]
fn an_empty_answer_is_asked_again_after_the_tool_results() {
    let scratch = Scratch::new();
    let look = call("Glob", json!({"pattern": "*"}));
    let provider = Provider::start(vec![look, say(""), say("Here.")]);
    let ran = scratch.run(&provider, &[]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!(ran.str("/final_text"), "Here.");
    assert_eq!(ran.outcome["facts"]["nudges"], 1);
    provider.request(PATIENCE);
    let before = provider.request(PATIENCE)["messages"].clone();
    let after = provider.request(PATIENCE)["messages"].clone();
    let (before, after) = (
        before.as_array().expect("list"),
        after.as_array().expect("list"),
    );
    assert_eq!(after[..before.len()], before[..], "the same prefix");
    assert_eq!(after.len(), before.len() + 1);
    let last = after.last().expect("a message");
    assert_eq!(last["role"], "user");
    assert!(last["content"].to_string().contains("empty"), "{last}");
    let provider = Provider::start(vec![say("")]);
    let ran = scratch.run(&provider, &[]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(ran.str("/error_class"), "empty_response");
}

#[test]
fn a_model_that_goes_in_circles_is_stopped() {
    let scratch = Scratch::new();
    let provider = Provider::start(vec![call("Bash", json!({"command": "true"}))]);
    let ran = scratch.run(&provider, &["--set", "max_turns=12"]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(ran.str("/error_class"), "loop_detected");
}

#[test]
fn the_servers_first_model_is_used_when_none_is_named() {
    let scratch = Scratch::new();
    let provider = Provider::start(vec![say("Here.")]);
    let output = scratch
        .command(&["t", "--json", "--base-url", &provider.base_url])
        .output()
        .expect("runs");
    assert_eq!(Ran::of(output).status, Some(0));
    assert_eq!(provider.request(PATIENCE)["model"], "fake-model");
}

fn start(scratch: &Scratch, provider: &Provider) -> Child {
    scratch
        .command(&[
            "t",
            "--json",
            "--base-url",
            &provider.base_url,
            "--model",
            "m",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spawns")
}

fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = i32::try_from(child.id()).expect("pid");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("signals");
}

#[test]
fn a_signal_cancels_a_waiting_run_within_a_second() {
    use nix::sys::signal::Signal;
    for kind in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let scratch = Scratch::new();
        let provider = Provider::start(vec![Reply::Hang]);
        let child = start(&scratch, &provider);
        provider.request(PATIENCE);
        let asked = Instant::now();
        signal(&child, kind);
        let ran = Ran::of(child.wait_with_output().expect("ends"));
        let took = asked.elapsed();
        assert_eq!(ran.status, Some(130), "{kind} {}", ran.stderr);
        assert_eq!(ran.str("/outcome"), "cancelled");
        assert!(took < Duration::from_secs(2), "{took:?}");
        let closed = provider.closed(PATIENCE).saturating_duration_since(asked);
        assert!(closed < Duration::from_secs(2), "{closed:?}");
    }
}

#[test]
fn a_signal_ends_a_command_and_all_of_its_processes() {
    let scratch = Scratch::new();
    let marker = "sleep 86.4142";
    let command = format!("{marker} & {marker}");
    let provider = Provider::start(vec![call("Bash", json!({"command": command}))]);
    let mut child = start(&scratch, &provider);
    let stderr = child.stderr.take().expect("piped");
    let mut lines = BufReader::new(stderr).lines();
    // The run is told of the call before it begins; wait for the process.
    while common::processes_with(marker).len() < 2 {
        assert!(child.try_wait().expect("alive").is_none(), "ended early");
        std::thread::yield_now();
    }
    signal(&child, nix::sys::signal::Signal::SIGINT);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(130));
    let left: Vec<_> = common::processes_with(marker);
    assert!(left.is_empty(), "{left:?}");
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("cancelled"))));
}

#[test]
fn two_coding_runs_do_not_share_a_workspace() {
    let scratch = Scratch::new();
    let provider = Provider::start(vec![Reply::Hang]);
    let child = start(&scratch, &provider);
    provider.request(PATIENCE);
    let second = Provider::start(vec![say("never asked")]);
    let ran = scratch.run(&second, &[]);
    assert_eq!(ran.status, Some(1), "{}", ran.stderr);
    assert_eq!(ran.str("/error_code"), "workspace_busy");
    signal(&child, nix::sys::signal::Signal::SIGTERM);
    child.wait_with_output().expect("ends");
    // The twin: it is free again.
    let ran = scratch.run(&second, &[]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
}

#[test]
fn nobody_reading_is_no_failure() {
    let scratch = Scratch::new();
    let provider = Provider::start(vec![say("Here.")]);
    let mut child = start(&scratch, &provider);
    drop(child.stdout.take());
    drop(child.stderr.take());
    let status = child.wait().expect("ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_configuration_is_shown_with_origins_and_without_secrets() {
    let scratch = Scratch::new();
    let dir = scratch.home().join(".config/delegate");
    fs::create_dir_all(&dir).expect("mkdir");
    fs::write(
        dir.join("config.toml"),
        "max_turns = 7\nkey_env = \"TEST_KEY\"\n",
    )
    .expect("write");
    let show = |args: &[&str]| {
        Command::new(common::delegate())
            .args(["config", "show"])
            .args(args)
            .env_clear()
            .env("HOME", scratch.home())
            .env("TEST_KEY", KEY)
            .env("DELEGATE_RETRY_BASE_MS", "5")
            .output()
            .expect("runs")
    };
    let output = show(&["--json"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains(KEY));
    let lines: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let of = |name: &str| {
        let line = lines
            .iter()
            .find(|line| line["group"] == "agents" && line["name"] == name);
        let line = line.expect("a line");
        (line["value"].clone(), line["origin"].clone())
    };
    assert_eq!(
        of("retry_base_ms"),
        (json!("5"), json!("$DELEGATE_RETRY_BASE_MS"))
    );
    let (value, origin) = of("max_turns");
    assert_eq!(value, "7");
    assert!(
        origin
            .as_str()
            .is_some_and(|origin| origin.ends_with("config.toml"))
    );
    assert_eq!(of("key").0, "(set, not shown)");
    let table = String::from_utf8(show(&[]).stdout).expect("UTF-8");
    assert!(table.contains("[agents]") && table.contains("max_turns"));
    fs::write(dir.join("config.toml"), "max_turn = 7\n").expect("write");
    assert_eq!(show(&[]).status.code(), Some(2));
}
