//! Without a jail: the commands run bare, and what is tested is the reading of
//! pipes, the clock and the ending. The jail's part is tested in the jail.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use jail::Spent;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use super::*;

/// Runs commands as process groups of this user.
struct Bare;

struct BareChild {
    child: process::Child,
    group: Pid,
    deadline: Option<Instant>,
    killed: Arc<AtomicBool>,
}

impl Ground for Bare {
    fn start(&self, command: Command) -> Result<Box<dyn Running>, JailError> {
        let child = process::Command::new(&command.argv[0])
            .args(&command.argv[1..])
            .current_dir(command.cwd.as_ref().expect("cwd"))
            .stdin(Stdio::from(command.stdin))
            .stdout(Stdio::from(command.stdout))
            .stderr(Stdio::from(command.stderr))
            .process_group(0)
            .spawn()
            .map_err(|source| JailError::Exec {
                program: PathBuf::from(&command.argv[0]),
                source,
            })?;
        Ok(Box::new(BareChild {
            group: Pid::from_child(&child),
            child,
            deadline: command.deadline.map(|wait| Instant::now() + wait),
            killed: Arc::default(),
        }))
    }
}

impl Running for BareChild {
    fn killer(&self) -> Killer {
        let (killed, group) = (Arc::clone(&self.killed), self.group);
        Box::new(move || {
            killed.store(true, Ordering::SeqCst);
            let _ = kill_process_group(group, Signal::KILL);
        })
    }

    fn wait(mut self: Box<Self>) -> Result<Report, JailError> {
        let mut exit = None;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if self.deadline.is_some_and(|at| Instant::now() >= at) {
                exit = Some(Exit::Deadline);
                let _ = kill_process_group(self.group, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let left = kill_process_group(self.group, Signal::KILL).is_ok();
        let by_signal = || Exit::Signal(status.signal().unwrap_or(0));
        let exit = match exit {
            Some(exit) => exit,
            None if self.killed.load(Ordering::SeqCst) => Exit::Cancelled,
            None => status.code().map_or_else(by_signal, Exit::Code),
        };
        Ok(Report {
            exit,
            survivors: u32::from(left),
            denials: Vec::new(),
            spent: Spent::default(),
        })
    }
}

struct House {
    dir: tempfile::TempDir,
    bash: Bash,
}

fn house(ground: impl Ground) -> House {
    let dir = tempfile::tempdir().expect("tempdir");
    let bash = Bash::new(
        Arc::new(ground),
        policy(),
        dir.path().to_owned(),
        Duration::from_secs(20),
        dir.path().to_owned(),
        PathBuf::from("/shown"),
    );
    House { dir, bash }
}

/// A policy that forbids nothing that these tests look at.
fn policy() -> Policy {
    let set = jail::ProfileSet::builtin();
    let request = jail::Request {
        profile: "worker".to_owned(),
        ..jail::Request::default()
    };
    let host = jail::Host {
        home: PathBuf::from("/nonexistent"),
        ..jail::Host::default()
    };
    jail::resolve(&set, &request, &host).expect("policy")
}

impl House {
    async fn run(&self, args: Value) -> ToolOutput {
        self.call(args, None, &CancellationToken::new()).await
    }

    async fn call(
        &self,
        args: Value,
        alias: Option<&'static str>,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        let call = ToolCall {
            tool: "Bash",
            args: args.as_object().expect("object").clone(),
            renamed: alias.is_some(),
            alias,
        };
        self.bash.call(&call, cancel).await
    }
}

/// Whether a process runs exactly this; a shell that is about to start it does
/// not count.
fn alive(command: &str) -> bool {
    let wanted = format!("{}\0", command.replace(' ', "\0"));
    std::fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .any(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        })
}

/// Waits for the death of what was killed: a signal is not its effect.
async fn gone(command: &str) {
    let started = Instant::now();
    while alive(command) {
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{command} is alive"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn output_exit_and_working_folder() {
    let house = house(Bare);
    let done = house
        .run(json!({"command": "pwd; echo err >&2; exit 3"}))
        .await;
    let here = house.dir.path().canonicalize().expect("canonical");
    assert_eq!(
        done.text,
        format!("[exit 3]\n{}\n--- stderr ---\nerr", here.display())
    );
    assert!(!done.ok);
    assert_eq!(done.bash.expect("facts").exit_code, Some(3));
    let done = house
        .run(json!({"command": "echo $BASH_VERSION | wc -c; kill -9 $$"}))
        .await;
    assert!(
        done.text.starts_with("[exit 137]\n[ended by signal 9]\n"),
        "{}",
        done.text
    );
}

#[tokio::test]
async fn standard_input_is_at_its_end() {
    let done = house(Bare)
        .run(json!({"command": "cat; echo after-cat"}))
        .await;
    assert_eq!((done.text.as_str(), done.ok), ("[exit 0]\nafter-cat", true));
}

#[tokio::test]
async fn a_background_child_that_holds_the_pipes_is_not_waited_for() {
    let started = Instant::now();
    let done = house(Bare)
        .run(json!({"command": "sleep 61.25 & echo started"}))
        .await;
    assert!(started.elapsed() < Duration::from_secs(10));
    assert!(done.ok);
    assert_eq!(
        done.text,
        "[exit 0]\nstarted\n[1 background process was ended]"
    );
    gone("sleep 61.25").await;
}

#[tokio::test]
async fn a_timeout_gives_what_was_printed_and_ends_everything() {
    let house = house(Bare);
    let started = Instant::now();
    let command = "echo before; sleep 62.5 & sleep 62.5";
    let done = house.run(json!({"command": command, "timeout": 1})).await;
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(done.text.starts_with("ERROR: ") && done.text.contains("after 1 s"));
    assert!(done.text.contains("\nbefore"), "{}", done.text);
    let facts = done.bash.expect("facts");
    assert_eq!(
        (facts.timed_out, facts.exit_code, done.ok),
        (true, Some(124), false)
    );
    gone("sleep 62.5").await;
    // Above 1800 a number is milliseconds.
    let done = house
        .run(json!({"command": "sleep 30", "timeout": 1801}))
        .await;
    assert!(done.text.contains("after 1.801 s"), "{}", done.text);
}

#[tokio::test]
async fn cancelling_ends_the_command_and_keeps_its_output() {
    let house = house(Bare);
    let cancel = CancellationToken::new();
    let call = house.call(json!({"command": "echo before; sleep 63.5"}), None, &cancel);
    let stop = async {
        while !alive("sleep 63.5") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let started = Instant::now();
    let (done, ()) = tokio::join!(call, stop);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(
        done.text.starts_with("ERROR: the command was cancelled"),
        "{}",
        done.text
    );
    assert!(done.text.contains("before"));
    gone("sleep 63.5").await;
    // Cancelled before it started: nothing runs.
    let never = house
        .call(json!({"command": "touch ran"}), None, &cancel)
        .await;
    assert!(!never.ok && !house.dir.path().join("ran").exists());
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_its_command() {
    let house = house(Bare);
    let cancel = CancellationToken::new();
    {
        let call = house.call(json!({"command": "sleep 64.5"}), None, &cancel);
        tokio::pin!(call);
        while !alive("sleep 64.5") {
            tokio::select! {
                _ = &mut call => panic!("it ended"),
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
    }
    gone("sleep 64.5").await;
}

#[tokio::test]
async fn long_output_keeps_both_ends_and_is_put_aside_whole() {
    let house = house(Bare);
    let command = "printf begin; head -c 30000 /dev/zero | tr '\\0' x; printf end; \
                   head -c 30000 /dev/zero | tr '\\0' y >&2";
    let done = house.run(json!({"command": command})).await;
    assert!(done.text.starts_with("[exit 0]\nbegin"));
    assert!(
        done.text
            .contains("captured 25000 of 30008 bytes; the whole is in /shown/1-stdout")
    );
    assert!(done.text.contains("captured 25000 of 30000 bytes"));
    assert!(done.text.contains("xend\n--- stderr ---\nyy"));
    let whole = std::fs::read(house.dir.path().join("1-stdout")).expect("spill");
    assert_eq!(whole.len(), 30_008);
    assert!(whole.ends_with(b"xend"));
    // Much more than a pipe holds, in one go.
    let done = house
        .run(json!({"command": "head -c 5000000 /dev/zero"}))
        .await;
    assert!(done.text.contains("of 5000000 bytes"));
}

#[tokio::test]
async fn run_bash_has_its_own_form_and_sizes() {
    let house = house(Bare);
    let cancel = CancellationToken::new();
    let old = Some("run_bash");
    let done = house
        .call(json!({"command": "echo a; exit 3"}), old, &cancel)
        .await;
    assert_eq!(done.text, "exit_code: 3\n--- stdout ---\na\n--- stderr ---");
    let command = "head -c 20000 /dev/zero | tr '\\0' x; head -c 5000 /dev/zero | tr '\\0' y >&2";
    let done = house.call(json!({"command": command}), old, &cancel).await;
    assert!(
        done.text.contains("captured 12000 of 20000 bytes"),
        "{}",
        done.text
    );
    assert!(done.text.contains("captured 4000 of 5000 bytes"));
}

/// Has no bash.
struct OnlySh;

impl Ground for OnlySh {
    fn start(&self, command: Command) -> Result<Box<dyn Running>, JailError> {
        if command.argv[0] == "bash" {
            return Err(JailError::Exec {
                program: "bash".into(),
                source: io::ErrorKind::NotFound.into(),
            });
        }
        Bare.start(command)
    }
}

/// Cannot run anything.
struct Nothing;

impl Ground for Nothing {
    fn start(&self, _: Command) -> Result<Box<dyn Running>, JailError> {
        Err(JailError::Busy)
    }
}

#[tokio::test]
async fn without_bash_it_is_sh_and_without_a_jail_it_is_nothing() {
    let done = house(OnlySh).run(json!({"command": "echo hi"})).await;
    assert_eq!(done.text, "[exit 0]\nhi");
    let none = house(Nothing).run(json!({"command": "echo hi"})).await;
    assert!(
        none.text.starts_with("ERROR: the command was not run: "),
        "{}",
        none.text
    );
    assert_eq!(none.bash.expect("facts").exit_code, None);
}

#[test]
fn small_numbers_are_seconds_and_large_ones_milliseconds() {
    assert_eq!(seconds_or_milliseconds(1), Duration::from_secs(1));
    assert_eq!(seconds_or_milliseconds(1800), Duration::from_secs(1800));
    assert_eq!(seconds_or_milliseconds(120_000), Duration::from_secs(120));
    assert_eq!(seconds_or_milliseconds(u64::MAX), Duration::from_secs(1800));
}
