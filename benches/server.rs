//! What the server, a tool call and a turn cost beside a bare `/bin/true`.
//!
//! `cargo bench --bench server [-- --rounds N] [--json]`. Arms are interleaved;
//! only ratios within one run mean anything.

mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/turns.rs"]
mod turns;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Arm, Bench};
use delegate::journal::Journal;
use delegate::tools::{Capability, ToolCall, Toolbox, ToolboxSetup};
use tokio_util::sync::CancellationToken;

const BINARY: &str = env!("CARGO_BIN_EXE_delegate");

fn main() {
    let bench = Bench::from_args("server", 100);
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let home = scratch.path().join("home");
    let workspace = scratch.path().join("work");
    let state = scratch.path().join("state");
    for folder in [&home, &workspace] {
        std::fs::create_dir(folder).expect("make a folder");
    }
    std::fs::write(
        workspace.join("kib.txt"),
        "x".repeat(63).repeat(16) + &"\n".repeat(16),
    )
    .expect("write the file that is read");

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let toolbox = open_toolbox(&workspace, &state);
    let read = ToolCall {
        tool: "Read",
        args: serde_json::json!({"file_path": "kib.txt"})
            .as_object()
            .expect("an object")
            .clone(),
        renamed: false,
        alias: None,
    };
    let cancel = CancellationToken::new();

    let arms = vec![
        Arm::new("true", bare_true),
        Arm::new("tools-list", || tools_list(&home).0),
        Arm::new("read-1k", || {
            let begun = Instant::now();
            let output = runtime.block_on(toolbox.call(&read, 1, &cancel));
            let spent = begun.elapsed();
            assert!(output.ok, "{}", output.text);
            spent
        }),
        Arm::new("turn", || runtime.block_on(turns::one_of_many())),
    ];
    let mut result = bench.run(arms);
    runtime.block_on(toolbox.close());
    result.ratio("tools-list", "true", Some(10.0));
    result.ratio("read-1k", "true", Some(1.0 / 3.0));
    result.ratio("turn", "true", Some(1.0));
    result.fact("idle resident set, MiB", idle_mib(&home), Some(15.0));
    result.finish();
}

fn bare_true() -> Duration {
    let begun = Instant::now();
    let done = Command::new("/bin/true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("spawn");
    assert!(done.success());
    begun.elapsed()
}

/// A server that has answered `tools/list`, and the time until it did.
fn tools_list(home: &Path) -> (Duration, Server) {
    let begun = Instant::now();
    let mut server = Server::start(home);
    server.say(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
    );
    server.answer("\"id\":1");
    server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    let tools = server.answer("\"id\":2");
    let spent = begun.elapsed();
    assert!(tools.contains("delegate_to_local_agent"), "{tools}");
    (spent, server)
}

/// Resident memory of a server that was asked for its tools and then nothing.
fn idle_mib(home: &Path) -> f64 {
    let (_, server) = tools_list(home);
    // Not an event to wait for: "idle" is that nothing happens for a while.
    std::thread::sleep(Duration::from_millis(500));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()))
        .expect("read the status of the server");
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .expect("VmRSS");
    kib / 1024.0
}

struct Server {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Server {
    fn start(home: &Path) -> Server {
        let mut child = Command::new(BINARY)
            .arg("serve")
            .env_clear()
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the server");
        Server {
            to: child.stdin.take(),
            from: BufReader::new(child.stdout.take().expect("its stdout")),
            child,
        }
    }

    fn say(&mut self, line: &str) {
        let to = self.to.as_mut().expect("open");
        writeln!(to, "{line}").expect("write to the server");
    }

    /// The next line that holds `mark`.
    fn answer(&mut self, mark: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.from.read_line(&mut line).expect("read an answer");
            assert!(read > 0, "the server ended");
            if line.contains(mark) {
                return line;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.wait();
    }
}

fn open_toolbox(workspace: &Path, state: &Path) -> Toolbox {
    Toolbox::open(ToolboxSetup {
        workspace: workspace.canonicalize().expect("a workspace"),
        capability: Capability::Readonly,
        run_id: "01BENCH0000000000000000000".to_owned(),
        state_dir: state.to_owned(),
        journal: Arc::new(Journal::open(state).expect("a journal")),
        bash_timeout: Duration::from_secs(10),
        vision: false,
        launcher: jail::Launcher {
            program: BINARY.into(),
        },
        host: host::host(),
        observe: jail::Observe::default(),
    })
    .expect("open the toolbox")
}
