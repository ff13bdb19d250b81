//! Bash: one command in the run's own Bash cell.
//!
//! The command's pipes are read while it runs; when its first process has
//! ended, so has everything that it started, and what is in the pipes then is
//! all there is. Nothing waits for a pipe that a background process held.

mod capture;
mod shape;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use jail::{Command, Exit, JailError, Launcher, Plan, Policy, Report};
use rustix::pipe::PipeFlags;
use serde_json::Value;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;

use super::names::MAX_BASH_SECONDS;
use super::{BashFacts, ToolCall, ToolOutput};
use capture::{Capture, Kept, Spill};

/// Bytes kept of each stream for the model.
const KEPT: usize = 25_000;

/// Characters that `run_bash` kept of stdout and stderr.
const KEPT_OF_OLD: (usize, usize) = (12_000, 4_000);

/// How long the ends of the pipes are waited for once everything in the jail is
/// dead; they come at once.
const REST: Duration = Duration::from_secs(5);

/// The shells to try, best first.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// Where commands run. The tests put another one in the place of a cell.
pub(super) trait Ground: Send + Sync + 'static {
    /// Starts a command.
    fn start(&self, command: Command) -> Result<Box<dyn Running>, JailError>;
}

/// A command that runs.
pub(super) trait Running: Send {
    /// A handle that ends it.
    fn killer(&self) -> Killer;
    /// Blocks until it and all that it started have ended.
    fn wait(self: Box<Self>) -> Result<Report, JailError>;
}

/// Ends a command; harmless once it has ended.
pub(super) type Killer = Box<dyn Fn() + Send + Sync>;

impl Running for jail::Child {
    fn killer(&self) -> Killer {
        let killer = jail::Child::killer(self);
        Box::new(move || killer.kill())
    }

    fn wait(self: Box<Self>) -> Result<Report, JailError> {
        jail::Child::wait(*self)
    }
}

/// A cell of a plan, opened at its first command and again when it has died.
pub(super) struct CellGround {
    pub(super) plan: Plan,
    pub(super) launcher: Launcher,
    pub(super) cell: StdMutex<Option<jail::Cell>>,
}

impl Ground for CellGround {
    fn start(&self, command: Command) -> Result<Box<dyn Running>, JailError> {
        let mut slot = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = match slot.as_ref() {
            Some(cell) => cell,
            None => slot.insert(self.plan.open(&self.launcher)?),
        };
        let started = cell.spawn(command);
        if matches!(started, Err(JailError::Gone { .. })) {
            *slot = None;
        }
        Ok(Box::new(started?))
    }
}

/// The Bash tool of a run.
pub(super) struct Bash {
    ground: Arc<dyn Ground>,
    policy: Policy,
    workspace: PathBuf,
    timeout: Duration,
    /// Where whole outputs are kept, and the path by which models name it.
    outputs: PathBuf,
    shown: PathBuf,
    state: Mutex<State>,
}

/// What one call leaves for the next. Locked for a whole call: a cell runs one
/// command at a time.
struct State {
    calls: u32,
    shell: usize,
}

/// What ended a command's run.
struct Ran {
    report: Report,
    stdout: Kept,
    stderr: Kept,
}

impl Bash {
    pub(super) fn new(
        ground: Arc<dyn Ground>,
        policy: Policy,
        workspace: PathBuf,
        timeout: Duration,
        outputs: PathBuf,
        shown: PathBuf,
    ) -> Bash {
        Bash {
            ground,
            policy,
            workspace,
            timeout,
            outputs,
            shown,
            state: Mutex::new(State { calls: 0, shell: 0 }),
        }
    }

    /// Runs one call.
    pub(super) async fn call(&self, call: &ToolCall, cancel: &CancellationToken) -> ToolOutput {
        let Some(command) = call.args.get("command").and_then(Value::as_str) else {
            return super::client::failure("argument command is missing".to_owned());
        };
        if command.contains('\0') {
            return super::client::failure("the command holds a NUL character".to_owned());
        }
        let timeout = call
            .args
            .get("timeout")
            .and_then(Value::as_u64)
            .map_or(self.timeout, seconds_or_milliseconds);
        let old = call.alias == Some("run_bash");
        let mut state = tokio::select! {
            biased;
            () = cancel.cancelled() => return not_run("the call was cancelled"),
            state = self.state.lock() => state,
        };
        state.calls += 1;
        loop {
            let shell = SHELLS[state.shell];
            let ran = self
                .run(shell, command, timeout, old, state.calls, cancel)
                .await;
            match ran {
                Err(JailError::Exec { source, .. })
                    if source.kind() == io::ErrorKind::NotFound
                        && state.shell + 1 < SHELLS.len() =>
                {
                    state.shell += 1;
                }
                Err(error) => {
                    return not_run(&format!("the command was not run: {error}"));
                }
                Ok(ran) => return self.told(&ran, timeout, old),
            }
        }
    }

    async fn run(
        &self,
        shell: &str,
        command: &str,
        timeout: Duration,
        old: bool,
        number: u32,
        cancel: &CancellationToken,
    ) -> Result<Ran, JailError> {
        let broken = |step: &'static str| {
            move |source: io::Error| JailError::Step {
                step: step.to_owned(),
                source,
            }
        };
        let stdin = File::open("/dev/null").map_err(broken("open /dev/null"))?;
        let (out, stdout) = pipe().map_err(broken("make a pipe"))?;
        let (err, stderr) = pipe().map_err(broken("make a pipe"))?;
        let command = Command {
            argv: vec![shell.into(), "-c".into(), OsString::from(command)],
            env: Vec::new(),
            cwd: Some(self.workspace.clone()),
            stdin: stdin.into(),
            stdout,
            stderr,
            deadline: Some(timeout),
        };
        let kept = if old { KEPT_OF_OLD } else { (KEPT, KEPT) };
        let capture = |pipe, kept, name: &str| {
            let file = format!("{number}-{name}");
            let spill = Spill::new(self.outputs.join(&file), self.shown.join(&file));
            Capture::new(pipe, kept, spill)
        };
        let mut out = capture(out, kept.0, "stdout");
        let mut err = capture(err, kept.1, "stderr");

        let ground = Arc::clone(&self.ground);
        let (say, mut started) = oneshot::channel();
        let mut ending = tokio::task::spawn_blocking(move || {
            let child = ground.start(command)?;
            // Nobody listens any more when the call was dropped meanwhile: then
            // the killer comes back, is dropped here and does its work.
            drop(say.send(KillOnDrop(Some(child.killer()))));
            child.wait()
        });
        let (mut killer, mut waiting, mut cancelled) = (None, true, false);
        let report = loop {
            tokio::select! {
                ended = &mut ending => break ended,
                () = out.more(), if out.is_open() => {}
                () = err.more(), if err.is_open() => {}
                got = &mut started, if waiting => {
                    waiting = false;
                    // What is not kept is dropped, and what is dropped kills.
                    killer = got.ok().filter(|_| !cancelled);
                }
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    killer = None;
                }
            }
        };
        if let Some(killer) = killer {
            killer.disarm();
        }
        // Everything that could write is dead, so both pipes come to an end. To
        // try once would not do: the runtime may not have heard of the last
        // bytes yet, and then says that there are none.
        let rest = async {
            while out.is_open() {
                out.more().await;
            }
            while err.is_open() {
                err.more().await;
            }
        };
        let _ = tokio::time::timeout(REST, rest).await;
        let report = report.map_err(|_| JailError::Gone {
            what: "the thread that watched it failed".to_owned(),
        })??;
        Ok(Ran {
            report,
            stdout: out.end(),
            stderr: err.end(),
        })
    }

    /// The end of a command in words and facts.
    fn told(&self, ran: &Ran, timeout: Duration, old: bool) -> ToolOutput {
        let report = &ran.report;
        let facts = BashFacts {
            exit_code: Some(report.exit.status()),
            timed_out: report.exit == Exit::Deadline,
            survivors: report.survivors,
            denials: jail::refused(&self.policy, &report.denials),
        };
        let text = shape::text(report.exit, &ran.stdout, &ran.stderr, &facts, timeout, old);
        ToolOutput {
            ok: report.exit == Exit::Code(0),
            text,
            bash: Some(facts),
            ..ToolOutput::default()
        }
    }
}

/// A pipe: the end that we read, ready for tokio, and the command's.
fn pipe() -> io::Result<(Receiver, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok((Receiver::from_owned_fd(read)?, write))
}

/// Up to 1800 it is seconds; other harnesses send milliseconds.
fn seconds_or_milliseconds(number: u64) -> Duration {
    if number <= MAX_BASH_SECONDS {
        Duration::from_secs(number)
    } else {
        Duration::from_millis(number.min(MAX_BASH_SECONDS * 1000))
    }
}

fn not_run(why: &str) -> ToolOutput {
    ToolOutput {
        bash: Some(BashFacts {
            exit_code: None,
            timed_out: false,
            survivors: 0,
            denials: Vec::new(),
        }),
        ..super::client::failure(why.to_owned())
    }
}

/// Ends a command when it is dropped: also when the whole call is.
struct KillOnDrop(Option<Killer>);

impl KillOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(kill) = self.0.take() {
            kill();
        }
    }
}

#[cfg(test)]
mod tests;
