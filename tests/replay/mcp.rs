//! The adapter: one case through `delegate serve`, played by a client on stdio.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::drive::{Place, delegate};
use super::judge;
use super::server::Server;
use super::{Case, KEY, MODEL};

/// How a server is told of its model, its settings and its agent: the one place
/// that knows it.
fn serve(case: &Case, port: u16, place: &Place) -> Command {
    let mut command = delegate(&place.home);
    let agents = place.home.join("agents");
    std::fs::create_dir_all(&agents).expect("a folder");
    let agent = "---\nname: replay\ndescription: plays a case\n---\nDo the task.\n";
    std::fs::write(agents.join("replay.md"), agent).expect("an agent");
    command
        .arg("serve")
        .current_dir(&place.workspace)
        .env("DELEGATE_LOCAL_AGENTS_DIR", agents)
        .env("DELEGATE_LOCAL_URL", case.base_url(port))
        .env("DELEGATE_LOCAL_KEY", KEY)
        .env("DELEGATE_LOCAL_MODEL", MODEL)
        .env("DELEGATE_WIRE", &case.format);
    for (key, value) in case.settings() {
        command.env(
            format!("DELEGATE_{}", key.to_uppercase()),
            value.to_string(),
        );
    }
    command
}

/// The tool that is called, and how it takes a task.
fn call(case: &Case, place: &Place) -> Value {
    json!({"name": "delegate_to_local_agent", "arguments": {
        "agent_name": "replay", "task": case.task, "workdir": place.workspace, "model": MODEL,
    }})
}

struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    stderr: Arc<Mutex<String>>,
    lines: Receiver<(Instant, String)>,
    seen: Vec<(Instant, Value)>,
    problems: Vec<String>,
}

impl Session {
    fn start(mut command: Command) -> Session {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout");
        let stderr = Arc::new(Mutex::new(String::new()));
        let told = Arc::clone(&stderr);
        let mut from = child.stderr.take().expect("stderr");
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..n]);
                told.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&text);
            }
        });
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        Session {
            child,
            stdin,
            stderr,
            lines,
            seen: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn send(&mut self, message: &Value) {
        if let Some(stdin) = &mut self.stdin {
            writeln!(stdin, "{message}").ok();
            stdin.flush().ok();
        }
    }

    /// Takes what comes until then, or until `enough` says so.
    fn take(&mut self, until: Instant, enough: impl Fn(&Value) -> bool) -> Option<Value> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok((at, line)) = self.lines.recv_timeout(left) else {
                return None;
            };
            match serde_json::from_str::<Value>(&line) {
                Ok(message) if message.get("jsonrpc") == Some(&json!("2.0")) => {
                    self.seen.push((at, message.clone()));
                    if enough(&message) {
                        return Some(message);
                    }
                }
                _ => self
                    .problems
                    .push(format!("stdout holds what is no JSON-RPC: {line:?}")),
            }
        }
    }

    fn request(&mut self, id: u64, method: &str, params: Value, wait: Duration) -> Option<Value> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.take(Instant::now() + wait, |m| m.get("id") == Some(&json!(id)))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const CALL: u64 = 10;
const OTHER: u64 = 20;

/// Plays a case and gives every problem.
pub fn run(prefix: &str) -> Vec<String> {
    let case = Case::load(prefix);
    assert_eq!(case.driver, "mcp", "{} has another driver", case.name);
    let server = Server::start(&case);
    let place = Place::new(&case);
    let mut session = Session::start(serve(&case, server.port, &place));
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "replay", "version": "0"}});
    if session
        .request(1, "initialize", hello, Duration::from_secs(10))
        .is_none()
    {
        return vec!["no answer to initialize".into()];
    }
    session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    if session
        .request(2, "tools/list", json!({}), Duration::from_secs(10))
        .is_none()
    {
        return vec!["no answer to tools/list".into()];
    }
    let rules = case.expect.get("mcp").cloned().unwrap_or_default();
    let start = Instant::now();
    let (mut cancelled, mut closed) = (None, None);
    for step in &case.client {
        let at =
            start + Duration::from_millis(step.get("at_ms").and_then(Value::as_u64).unwrap_or(0));
        session.take(at, |_| false);
        match step.get("do").and_then(Value::as_str).unwrap_or_default() {
            "call" => {
                let mut params = call(&case, &place);
                if let Some(token) = step.get("progress_token") {
                    params["_meta"] = json!({"progressToken": token});
                }
                session.send(&json!({"jsonrpc": "2.0", "id": CALL, "method": "tools/call", "params": params}));
            }
            "cancel" => {
                cancelled = Some(Instant::now());
                let params = json!({"requestId": CALL, "reason": step.get("reason")});
                session.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
            }
            "request" => {
                let method = step
                    .get("method")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned();
                let answer = session.request(OTHER, &method, json!({}), Duration::from_secs(2));
                let wanted = rules.get("still_answers").and_then(Value::as_str) == Some(&method);
                if wanted && answer.is_none_or(|a| a.get("result").is_none()) {
                    session.problems.push(format!("no answer to {method}"));
                }
            }
            "close_stdin" => {
                closed = Some(Instant::now());
                session.stdin = None;
            }
            other => session
                .problems
                .push(format!("the case asks for {other:?}")),
        }
    }
    // Late progress shows only if it is waited for.
    session.take(Instant::now() + Duration::from_millis(700), |_| false);
    if let Some(closed) = closed {
        exits(&mut session, &rules, closed);
    }
    progress(&mut session, &rules, cancelled);
    let seen = server.seen();
    if let (Some(limit), Some(cancelled)) = (
        rules
            .get("upstream_closed_within_ms")
            .and_then(Value::as_f64),
        cancelled,
    ) {
        let late = seen.iter().rfind(|s| s.counted).and_then(|s| {
            let at = s.at? + Duration::from_secs_f64(s.client_closed_ms? / 1000.0);
            Some(at.saturating_duration_since(cancelled).as_secs_f64() * 1000.0)
        });
        match late {
            Some(late) if late <= limit => {}
            other => session.problems.push(format!(
                "upstream closed {other:?} ms after the cancel, want {limit}"
            )),
        }
    }
    // Client and server side only: a cancelled call has no `actual`.
    let mut expect = case.expect.clone();
    if let Value::Object(map) = &mut expect {
        map.retain(|key, _| matches!(key.as_str(), "http_requests" | "files"));
    }
    let mut problems = std::mem::take(&mut session.problems);
    problems.extend(judge::judge(&expect, &seen, &json!({}), &place.workspace));
    let stderr = session
        .stderr
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    if stderr.contains(KEY) {
        problems.push("G8 the key is printed".into());
    }
    if !problems.is_empty() {
        problems.push(format!("stderr: {stderr}"));
        problems.extend(session.seen.iter().map(|(at, message)| {
            let at = at.saturating_duration_since(start).as_millis();
            format!("at {at} ms: {message}")
        }));
    }
    problems
}

fn exits(session: &mut Session, rules: &Value, closed: Instant) {
    let Some(limit) = rules.get("process_exits_within_ms").and_then(Value::as_u64) else {
        return;
    };
    let end = closed + Duration::from_millis(limit);
    loop {
        match session.child.try_wait() {
            Ok(Some(status)) => {
                if let Some(want) = rules.get("exit_code").and_then(Value::as_i64)
                    && status.code().map(i64::from) != Some(want)
                {
                    session
                        .problems
                        .push(format!("ended with {status}, want {want}"));
                }
                return;
            }
            _ if Instant::now() > end => {
                session
                    .problems
                    .push(format!("still there {limit} ms after the end of its input"));
                return;
            }
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn progress(session: &mut Session, rules: &Value, cancelled: Option<Instant>) {
    let is_progress = |m: &Value| m.get("method") == Some(&json!("notifications/progress"));
    let all: Vec<(Instant, Value)> = session
        .seen
        .iter()
        .filter(|(_, m)| is_progress(m))
        .cloned()
        .collect();
    let answered = session
        .seen
        .iter()
        .find(|(_, m)| m.get("id") == Some(&json!(CALL)))
        .map(|(at, _)| *at);
    let mut problems = Vec::new();
    let before = all
        .iter()
        .filter(|(at, _)| cancelled.is_none_or(|c| *at < c))
        .count() as u64;
    if let Some(least) = rules
        .get("progress_min")
        .and_then(Value::as_u64)
        .filter(|least| before < *least)
    {
        problems.push(format!(
            "{before} progress notifications before the cancel, want {least}"
        ));
    }
    if let Some(token) = rules.get("progress_token") {
        for (_, message) in &all {
            if message.pointer("/params/progressToken") != Some(token) {
                problems.push(format!("progress with another token: {message}"));
            }
        }
    }
    if rules.get("progress_increasing") == Some(&json!(true)) {
        let numbers: Vec<f64> = all
            .iter()
            .filter_map(|(_, m)| m.pointer("/params/progress")?.as_f64())
            .collect();
        if numbers.len() != all.len() || numbers.windows(2).any(|pair| pair[0] >= pair[1]) {
            problems.push(format!("progress does not grow: {numbers:?}"));
        }
    }
    if let (Some(limit), Some(cancelled)) = (
        rules.get("no_progress_after_ms").and_then(Value::as_u64),
        cancelled,
    ) {
        let last = cancelled + Duration::from_millis(limit);
        if all
            .iter()
            .any(|(at, _)| *at > last || answered.is_some_and(|a| *at > a))
        {
            problems.push("progress after the end of the call".into());
        }
    }
    session.problems.extend(problems);
}
