//! `delegate run`: one task, with live progress for a person.
//!
//! Progress and notes go to stderr, the answer to stdout; with `--json` the
//! last line of stdout is the outcome as one object, whatever happened.

mod prepare;
mod progress;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::{host, text};
use crate::provider::ErrorClass;
use crate::run::{BashSummary, LoopFacts, Outcome, RunOutcome, execute};
use prepare::{Prepared, Refused};
use progress::Progress;

/// Flags of `delegate run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --base-url and without one in the configuration, the first local server that
answers is used: LM Studio, Ollama, llama.cpp, vLLM, LiteLLM at their usual ports.
Without a model name, the first that the server lists.")]
pub struct Args {
    /// The task, for the model.
    pub task: String,
    /// Agent definition to run as (`.claude/agents/NAME.md` and its like).
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Read, Glob and Grep only, under a policy that cannot write.
    #[arg(long)]
    pub readonly: bool,
    /// Folder to work in.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub workspace: PathBuf,
    /// Where the model is, such as http://127.0.0.1:8080/v1.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Protocol spoken there; else by the model's name and the URL.
    #[arg(long, value_name = "WIRE")]
    pub wire: Option<WireArg>,
    /// Model name.
    #[arg(long, value_name = "M")]
    pub model: Option<String>,
    /// Environment variable that holds the key.
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// A setting; `delegate config show` lists them.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The last line of stdout is the outcome as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The wires by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WireArg {
    /// OpenAI Chat Completions.
    Openai,
    /// Anthropic Messages.
    Anthropic,
}

impl WireArg {
    fn name(self) -> &'static str {
        match self {
            WireArg::Openai => "openai",
            WireArg::Anthropic => "anthropic",
        }
    }
}

/// Runs a task to its end.
pub fn main(args: Args) -> ExitCode {
    let json = args.json;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(cause) => {
            host::say(&format!("delegate: cannot start: {cause}"));
            return Exit::Failed.into();
        }
    };
    let (outcome, exit) = runtime.block_on(attempt(args));
    // What is left is at most a look-up of a name that nobody waits for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    report(&outcome, exit, json)
}

async fn attempt(args: Args) -> (RunOutcome, Exit) {
    let cancel = CancellationToken::new();
    if let Err(cause) = cancel_on_signals(&cancel) {
        host::say(&format!("delegate: signals cannot be handled: {cause}"));
    }
    let prepared = tokio::select! {
        biased;
        () = cancel.cancelled() => return (never_ran(&Refused::cancelled()), Exit::Cancelled),
        prepared = prepare::prepare(&args) => prepared,
    };
    let Prepared {
        spec,
        deps,
        notes,
        lease,
    } = match prepared {
        Ok(prepared) => prepared,
        Err(refused) => return (never_ran(&refused), refused.exit),
    };
    let mut progress = Progress::new();
    progress.opening(&spec, &notes);
    let outcome = execute(spec, &deps, &mut |event| progress.event(&event), &cancel).await;
    progress.closing(&outcome);
    drop(lease);
    let exit = exit_of(&outcome);
    (outcome, exit)
}

/// The outcome of a run that was refused before it had an id.
fn never_ran(refused: &Refused) -> RunOutcome {
    let cancelled = refused.exit == Exit::Cancelled;
    RunOutcome {
        outcome: if cancelled {
            Outcome::Cancelled
        } else {
            Outcome::Failed
        },
        error_class: Some(if cancelled {
            ErrorClass::Cancelled
        } else {
            ErrorClass::Local
        }),
        error_code: Some(refused.code.clone()),
        error_text: Some(refused.text.clone()),
        final_text: None,
        usage: None,
        executions: Vec::new(),
        run_id: String::new(),
        turns: 0,
        mutations: Vec::new(),
        enforcement: None,
        refusals: Vec::new(),
        bash: BashSummary::default(),
        model: None,
        duration_seconds: 0.0,
        flags: Vec::new(),
        facts: LoopFacts::default(),
    }
}

fn exit_of(outcome: &RunOutcome) -> Exit {
    match outcome.outcome {
        Outcome::Completed => Exit::Done,
        Outcome::Cancelled => Exit::Cancelled,
        Outcome::Failed if outcome.enforcement.is_none() && no_jail(outcome) => Exit::NoJail,
        Outcome::Failed => Exit::Failed,
    }
}

/// Whether the run ended because there was no jail for it.
fn no_jail(outcome: &RunOutcome) -> bool {
    let code = outcome.error_code.as_deref().unwrap_or_default();
    outcome.error_class == Some(ErrorClass::Local)
        && ["jail_", "profile_", "policy_"]
            .iter()
            .any(|room| code.starts_with(room))
}

fn report(outcome: &RunOutcome, exit: Exit, json: bool) -> ExitCode {
    if let Some(why) = &outcome.error_text {
        host::say(&format!("delegate: {}", text::plain(why)));
    }
    let printed = if json {
        match serde_json::to_string(outcome) {
            Ok(line) => host::written(&(line + "\n")),
            Err(cause) => {
                host::say(&format!("delegate: the outcome cannot be written: {cause}"));
                return Exit::Failed.into();
            }
        }
    } else {
        match &outcome.final_text {
            Some(answer) => host::written(&(text::plain(answer) + "\n")),
            None => true,
        }
    };
    if printed { exit } else { Exit::Failed }.into()
}

/// The first signal cancels and the run ends in good order; a second one ends
/// the process, and every jail dies with it.
fn cancel_on_signals(cancel: &CancellationToken) -> std::io::Result<()> {
    for kind in [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ] {
        let mut signals = signal(kind)?;
        let cancel = cancel.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if cancel.is_cancelled() {
                    std::process::exit(i32::from(Exit::Cancelled.status()));
                }
                cancel.cancel();
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_says_what_happened() {
        let refused = |code: &str| Refused {
            exit: Exit::Usage,
            code: code.into(),
            text: "x".into(),
        };
        let mut outcome = never_ran(&refused("jail_below_floor"));
        assert_eq!(exit_of(&outcome), Exit::NoJail);
        outcome.error_code = Some("state_unsafe".into());
        assert_eq!(exit_of(&outcome), Exit::Failed);
        outcome.error_class = Some(ErrorClass::TurnLimit);
        assert_eq!(exit_of(&outcome), Exit::Failed);
        outcome.outcome = Outcome::Cancelled;
        assert_eq!(exit_of(&outcome), Exit::Cancelled);
        outcome.outcome = Outcome::Completed;
        assert_eq!(exit_of(&outcome), Exit::Done);
    }
}
