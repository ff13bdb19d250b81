//! The adapter: one case through `delegate run`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::server::{Seen, Server};
use super::{Case, KEY, MODEL, judge};

/// A run is killed after this.
const MOST: Duration = Duration::from_secs(120);

/// Folders of one run: a home of its own, and the workspace beside it.
pub struct Place {
    pub home: PathBuf,
    pub workspace: PathBuf,
    _root: tempfile::TempDir,
}

impl Place {
    pub fn new(case: &Case) -> Place {
        let root = tempfile::tempdir().expect("a folder");
        let home = root.path().join("home");
        let workspace = root.path().join("workspace");
        std::fs::create_dir_all(&home).expect("a home");
        case.fill(&workspace);
        Place {
            home,
            workspace,
            _root: root,
        }
    }
}

/// The binary with an environment that holds nothing of the person's.
pub fn delegate(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delegate"));
    command
        .env_clear()
        .env("HOME", home)
        .env("LANG", "C.UTF-8")
        .env("REPLAY_KEY", KEY);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// `--set` arguments of a case.
pub fn settings(case: &Case) -> Vec<String> {
    let mut out = Vec::new();
    for (key, value) in case.settings() {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        out.push("--set".to_owned());
        out.push(format!("{key}={value}"));
    }
    out
}

/// Runs a case and gives every problem.
pub fn run(prefix: &str) -> Vec<String> {
    let case = Case::load(prefix);
    assert_eq!(case.driver, "any", "{} has another driver", case.name);
    let server = Server::start(&case);
    let place = Place::new(&case);
    let mut command = delegate(&place.home);
    command
        .arg("run")
        .arg(&case.task)
        .arg("--workspace")
        .arg(&place.workspace)
        .args([
            "--base-url",
            &case.base_url(server.port),
            "--wire",
            &case.format,
            "--model",
            MODEL,
        ])
        .args(["--key-env", "REPLAY_KEY", "--json"])
        .args(settings(&case))
        .current_dir(&place.workspace)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("the binary");
    let (stdout, stderr) = finish(child);
    let last = stdout
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let seen = server.seen();
    let mut problems = match serde_json::from_str::<Value>(last) {
        Ok(actual) => judge::judge(&case.expect, &seen, &actual, &place.workspace),
        Err(error) => vec![format!(
            "the last line of stdout is no JSON ({error}): {last:?}"
        )],
    };
    if stdout.contains(KEY) || stderr.contains(KEY) {
        problems.push("G8 the key is printed".into());
    }
    problems.extend(leftovers(&case.expect, &place.workspace));
    if !problems.is_empty() {
        problems.push(format!("stderr: {stderr}"));
        problems.push(format!("stdout: {stdout}"));
        problems.extend(seen.iter().map(told));
    }
    problems
}

fn told(seen: &Seen) -> String {
    format!(
        "saw request {}: {} bytes, gap {:?} ms",
        seen.n, seen.body_bytes, seen.gap_ms
    )
}

/// What a child printed; it is killed when it takes too long.
pub fn finish(mut child: std::process::Child) -> (String, String) {
    let out = child.stdout.take().map(collect);
    let err = child.stderr.take().map(collect);
    let end = Instant::now() + MOST;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(10)),
            _ => {
                child.kill().ok();
                child.wait().ok();
                break;
            }
        }
    }
    let text = |thread: Option<thread::JoinHandle<String>>| {
        thread.and_then(|t| t.join().ok()).unwrap_or_default()
    };
    (text(out), text(err))
}

fn collect(mut from: impl std::io::Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).ok();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Processes that should be gone two seconds after the end.
fn leftovers(expect: &Value, workspace: &Path) -> Vec<String> {
    let unwanted = expect
        .get("no_process_left")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let end = Instant::now() + Duration::from_secs(2);
    let mut out = Vec::new();
    for text in unwanted.iter().filter_map(Value::as_str) {
        while alive(text, workspace) {
            if Instant::now() > end {
                out.push(format!("a process with {text:?} is left"));
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    out
}

fn alive(text: &str, workspace: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|entry| {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else {
            return false;
        };
        // Others on the machine sleep as well: ours stand in the workspace.
        let here = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == workspace);
        here && String::from_utf8_lossy(&line)
            .replace('\0', " ")
            .contains(text)
    })
}
