//! A host for the tests: raw JSON-RPC over the pipes of the real binary, with
//! a home of its own. Every line that the server writes must be JSON-RPC.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod provider;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for anything that should come at once.
pub const SOON: Duration = Duration::from_secs(20);

/// A server under test.
pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Messages that came while another was waited for.
    pub seen: Vec<Value>,
    pub home: TempDir,
    pub project: std::path::PathBuf,
}

/// How to start it.
pub struct Start {
    args: Vec<String>,
    env: Vec<(String, String)>,
    bare: bool,
}

impl Start {
    pub fn new() -> Start {
        Start {
            args: Vec::new(),
            env: Vec::new(),
            bare: false,
        }
    }

    pub fn args(mut self, args: &[&str]) -> Start {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Start {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without even HOME and PATH.
    pub fn bare(mut self) -> Start {
        self.bare = true;
        self
    }

    pub fn go(self) -> Server {
        let home = tempfile::tempdir().expect("tempdir");
        let project = home.path().join("project");
        std::fs::create_dir(&project).expect("project");
        let mut command = Command::new(env!("CARGO_BIN_EXE_delegate"));
        command
            .arg("serve")
            .args(&self.args)
            .current_dir(&project)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        if !self.bare {
            command.env("HOME", home.path());
            command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        }
        command.envs(self.env);
        let mut child = command.spawn().expect("the server starts");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("stdout");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Server {
            child,
            input,
            lines,
            seen: Vec::new(),
            home,
            project,
        }
    }
}

impl Server {
    pub fn start() -> Server {
        Start::new().go()
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub fn send_raw(&mut self, line: &str) {
        let input = self.input.as_mut().expect("open input");
        input
            .write_all(format!("{line}\n").as_bytes())
            .expect("the server reads");
        input.flush().expect("flush");
    }

    pub fn send(&mut self, message: &Value) {
        self.send_raw(&message.to_string());
    }

    pub fn request(&mut self, id: Value, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub fn call(&mut self, id: Value, tool: &str, args: Value, token: Option<Value>) {
        let mut params = json!({"name": tool, "arguments": args});
        if let Some(token) = token {
            params["_meta"] = json!({"progressToken": token});
        }
        self.request(id, "tools/call", params);
    }

    pub fn cancel(&mut self, id: Value) {
        self.send(&json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "test"}
        }));
    }

    /// The next message, or `None` when nothing comes in time.
    pub fn next_within(&mut self, patience: Duration) -> Option<Value> {
        let line = match self.lines.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => panic!("the server hung up"),
        };
        let message: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("a line that is not JSON: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    pub fn next(&mut self) -> Value {
        self.next_within(SOON).expect("a message in time")
    }

    /// The answer to `id`; what comes before it goes to `seen`.
    pub fn answer(&mut self, id: Value) -> Value {
        let until = Instant::now() + SOON;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let message = self
                .next_within(rest)
                .unwrap_or_else(|| panic!("no answer to {id}; seen {:?}", self.seen));
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
            self.seen.push(message);
        }
    }

    pub fn initialize(&mut self) -> Value {
        self.request(
            json!("init"),
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "0"}
            }),
        );
        let answer = self.answer(json!("init"));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// Names in `tools/list`.
    pub fn tools(&mut self) -> Vec<String> {
        self.request(json!("list"), "tools/list", json!({}));
        let answer = self.answer(json!("list"));
        answer["result"]["tools"]
            .as_array()
            .expect("tools")
            .iter()
            .map(|tool| tool["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    pub fn close_input(&mut self) {
        drop(self.input.take());
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("signal");
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self, patience: Duration) -> ExitStatus {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status;
            }
            assert!(Instant::now() < until, "the server is still running");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What the process writes after this until it ends must be JSON-RPC too.
    pub fn drain(&mut self) -> Vec<Value> {
        self.lines
            .iter()
            .map(|line| serde_json::from_str(&line).expect("JSON"))
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text block of a tool result.
pub fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
}

/// Processes whose command line contains `marker`.
pub fn processes_with(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let path = entry.path().join("cmdline");
        if let Ok(line) = std::fs::read(&path) {
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(marker) {
                found.push(format!("{}: {line}", entry.file_name().display()));
            }
        }
    }
    found
}

/// Waits until `true` or fails with `what`.
pub fn eventually(what: &str, patience: Duration, mut check: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !check() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a file below the project, with its folders.
pub fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    std::fs::write(path, text).expect("write");
}
