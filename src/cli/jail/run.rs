//! `delegate jail run PROFILE -- CMD...`

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::task::Poll;
use std::time::Duration;

use jail::{Exit, JailError, Report};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Failure, PolicyArgs, held, launcher, report, say};
use crate::cli::text::plain;

/// Flags of `delegate jail run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: that of CMD; 128+n when signal n ended it; 124 at the deadline;
125 when no jail could be made; 126 when CMD cannot be executed; 127 when it is
not found.")]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Kill the command after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    deadline: Option<Duration>,
    /// Write the report, as JSON, to this file instead of stderr.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the report to stderr as one line of JSON.
    #[arg(long)]
    json: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no number of seconds above 0");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    let time = Duration::try_from_secs_f64(number).map_err(|_| wrong())?;
    if time.is_zero() {
        Err(wrong())
    } else {
        Ok(time)
    }
}

/// Runs the command and exits as it did.
pub(super) fn main(args: Args) -> ExitCode {
    // Opened before anything runs: a jailed command that can write the folder
    // must not be able to put a link in the way.
    let mut file = match args.report.as_deref().map(open_report).transpose() {
        Ok(file) => file,
        Err(failure) => return fail(&args, &mut None, &failure),
    };
    let resolved = match args.policy.resolve() {
        Ok(resolved) => resolved,
        Err(failure) => return fail(&args, &mut file, &failure),
    };
    let plan = match args.policy.plan(&resolved) {
        Ok(plan) => plan,
        Err(failure) => return fail(&args, &mut file, &failure),
    };
    match execute(&args, &resolved.policy, &plan) {
        Ok((outcome, signal)) => {
            let status = match (outcome.exit, signal) {
                (Exit::Cancelled, Some(signal)) => 128 + signal,
                (exit, _) => exit.status(),
            };
            let status = u8::try_from(status).unwrap_or(u8::MAX);
            let policy = &held(&plan);
            let denials = jail::refused(policy, &outcome.denials);
            let object = report::object(policy, plan.enforcement(), &outcome, &denials, status);
            tell(
                &args,
                &mut file,
                &object,
                &report::text(policy, &outcome, &denials),
            );
            ExitCode::from(status)
        }
        Err(failure) => fail(&args, &mut file, &failure),
    }
}

fn fail(args: &Args, file: &mut Option<File>, failure: &Failure) -> ExitCode {
    let text = plain(&format!("delegate: {}\n", failure.message));
    tell(args, file, &report::failure_object(failure), &text);
    if file.is_some() {
        // A file is for programs; whoever typed the command has to see it too.
        say(&text);
    }
    ExitCode::from(failure.status)
}

/// Writes the report where it was asked for. It never goes to stdout, which
/// belongs to the command.
fn tell(args: &Args, file: &mut Option<File>, object: &serde_json::Value, text: &str) {
    let line = format!("{object}\n");
    if let Some(file) = file
        && let Err(error) = file.write_all(line.as_bytes())
    {
        say(&format!(
            "delegate: the report cannot be written: {error}\n"
        ));
    }
    if args.json {
        say(&line);
    } else if file.is_none() {
        say(text);
    }
}

fn open_report(path: &std::path::Path) -> Result<File, Failure> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| {
            Failure::new(
                "report_unwritable",
                format!("the report {} cannot be written: {error}", path.display()),
            )
        })
}

/// Opens the cell and runs the command to its end. Also gives the signal that
/// made us kill it, if one did.
fn execute(
    args: &Args,
    policy: &jail::Policy,
    plan: &jail::Plan,
) -> Result<(Report, Option<i32>), Failure> {
    let launcher = launcher().map_err(|error| {
        Failure::new(
            "launcher_unknown",
            format!("delegate does not find its own binary: {error}"),
        )
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("no_runtime", format!("no runtime for signals: {error}")))?;
    let no_signals =
        |error| Failure::new("no_signals", format!("signals cannot be caught: {error}"));
    let mut signals = {
        let _inside = runtime.enter();
        Signals::catch().map_err(no_signals)?
    };
    let cell = plan.open(&launcher)?;
    let command = jail::Command {
        argv: args.command.clone(),
        env: Vec::new(),
        cwd: cwd(policy),
        stdin: dup(std::io::stdin())?,
        stdout: dup(std::io::stdout())?,
        stderr: dup(std::io::stderr())?,
        deadline: args.deadline,
    };
    let child = cell.spawn(command).map_err(cannot_run)?;
    let killer = child.killer();
    runtime.block_on(async move {
        let mut waiting = tokio::task::spawn_blocking(move || child.wait());
        let killed_by = tokio::select! {
            report = &mut waiting => return finished(report, None),
            by = signals.next() => by,
        };
        killer.kill();
        finished(waiting.await, Some(killed_by))
    })
}

fn finished(
    report: Result<Result<Report, JailError>, tokio::task::JoinError>,
    signal: Option<i32>,
) -> Result<(Report, Option<i32>), Failure> {
    let report = report.map_err(|error| {
        Failure::new(
            "jail_gone",
            format!("waiting for the command failed: {error}"),
        )
    })?;
    Ok((report.map_err(cannot_run)?, signal))
}

/// A program that cannot be executed is told as a shell tells it.
fn cannot_run(error: JailError) -> Failure {
    let status = exec_status(&error);
    let mut failure = Failure::from(error);
    if let Some(status) = status {
        failure.status = status;
    }
    failure
}

fn exec_status(error: &JailError) -> Option<u8> {
    match error {
        JailError::Exec { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Some(127)
        }
        JailError::Exec { .. } => Some(126),
        _ => None,
    }
}

/// The signals that ask us to end. The command is in a session of its own, so
/// a terminal's signals reach only us.
struct Signals(Vec<(i32, Signal)>);

impl Signals {
    /// Installs the handlers; before the cell is opened, so that no signal
    /// finds us with a command and without them.
    fn catch() -> std::io::Result<Signals> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        kinds
            .into_iter()
            .map(|kind| Ok((kind.as_raw_value(), signal(kind)?)))
            .collect::<std::io::Result<_>>()
            .map(Signals)
    }

    /// Waits for one of them.
    async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The current folder, where the command can see it.
fn cwd(policy: &jail::Policy) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let workspace = policy.workspace.as_ref()?;
    here.starts_with(workspace).then_some(here)
}

fn dup(fd: impl AsFd) -> Result<OwnedFd, Failure> {
    fd.as_fd()
        .try_clone_to_owned()
        .or_else(|_| File::open("/dev/null").map(OwnedFd::from))
        .map_err(|error| {
            Failure::new(
                "stdio",
                format!("standard input or output cannot be passed on: {error}"),
            )
        })
}
