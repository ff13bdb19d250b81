//! The real model and the real tools: what both faces call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jail::Enforcement;
use tokio_util::sync::CancellationToken;

use crate::config::RunSettings;
use crate::journal::Journal;
use crate::provider::{
    Client, ErrorClass, ProviderError, ProviderEvent, ToolSpec, ToolUse, TurnReply, TurnRequest,
};
use crate::tools::{self, Capability, ToolCall, ToolOutput, Toolbox, ToolboxError, ToolboxSetup};

use super::driver::{Drive, Model, Tools, drive};
use super::record::Record;
use super::rules::{Budgets, End, Names, Rules, Unfit};
use super::step::Loop;
use super::{LoopFacts, Outcome, RunEvent, RunOutcome, RunSpec, Toolset, prompt};

/// How long closing the toolbox may take before the outcome is given anyway;
/// what is still alive then dies with its cell.
const CLOSING: Duration = Duration::from_millis(300);

/// What a run needs of the process it runs in.
#[derive(Clone)]
pub struct Deps {
    /// Where changes are recorded.
    pub journal: Arc<Journal>,
    /// The program that becomes the first process of a jail.
    pub launcher: jail::Launcher,
    /// What policies are resolved against.
    pub host: jail::Host,
}

/// Runs to the end. Ends within about a second after `cancel` fires, with
/// everything that it started dead.
pub async fn execute(
    spec: RunSpec,
    deps: &Deps,
    events: &mut (dyn FnMut(RunEvent) + Send),
    cancel: &CancellationToken,
) -> RunOutcome {
    let run_id = ulid::Ulid::generate().to_string();
    let date = jiff::ZonedDateTime::now().date().to_string();
    let client = Client::new(spec.endpoint.clone(), &spec.settings);
    let setup = ToolboxSetup {
        workspace: spec.workspace.clone(),
        capability: spec.capability,
        run_id: run_id.clone(),
        state_dir: spec.state_dir.clone(),
        journal: Arc::clone(&deps.journal),
        bash_timeout: spec.settings.bash_timeout,
        vision: spec.settings.vision,
        launcher: deps.launcher.clone(),
        host: deps.host.clone(),
        observe: spec.settings.observe,
    };
    let open = move || Toolbox::open(setup).map_err(|error| NotOpened::from(&error));
    conduct(spec, run_id, &date, client, open, events, cancel).await
}

/// Why the tools could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NotOpened {
    code: String,
    text: String,
}

impl From<&ToolboxError> for NotOpened {
    fn from(error: &ToolboxError) -> Self {
        NotOpened {
            code: error.code().to_owned(),
            text: error.to_string(),
        }
    }
}

/// A set of tools in a jail.
trait Workbench: Send + Sync + 'static {
    fn enforcement(&self) -> &Enforcement;
    fn call(
        &self,
        call: &ToolCall,
        turn: u32,
        cancel: &CancellationToken,
    ) -> impl Future<Output = ToolOutput> + Send;
    fn close(self) -> impl Future<Output = ()> + Send;
}

impl Workbench for Toolbox {
    fn enforcement(&self) -> &Enforcement {
        Toolbox::enforcement(self)
    }

    fn call(
        &self,
        call: &ToolCall,
        turn: u32,
        cancel: &CancellationToken,
    ) -> impl Future<Output = ToolOutput> + Send {
        Toolbox::call(self, call, turn, cancel)
    }

    fn close(self) -> impl Future<Output = ()> + Send {
        Toolbox::close(self)
    }
}

impl Model for Client {
    fn turn(
        &mut self,
        request: TurnRequest<'_>,
        cancel: &CancellationToken,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> impl Future<Output = Result<TurnReply, ProviderError>> + Send {
        Client::turn(self, request, cancel, on)
    }
}

/// The tools of one run: the box, what of it may be used.
struct Bench<B> {
    toolbox: B,
    capability: Capability,
    allowed: Option<Vec<String>>,
}

impl<B: Workbench> Names for Bench<B> {
    fn canonical(&self, call: &ToolUse) -> Result<ToolCall, Unfit> {
        let allowed = self.allowed.as_deref();
        tools::canonical(call, self.capability, allowed).map_err(|text| {
            // What the whole set would take is refused by this run's rules.
            let known = tools::canonical(call, Capability::Coding, None).ok();
            Unfit {
                refused: known
                    .filter(|known| !offered(known.tool, self.capability, allowed))
                    .map(|known| format!("{} is not among the tools of this run", known.tool)),
                text,
            }
        })
    }
}

impl<B: Workbench> Tools for Bench<B> {
    fn call(
        &self,
        call: &ToolCall,
        turn: u32,
        cancel: &CancellationToken,
    ) -> impl Future<Output = ToolOutput> + Send {
        self.toolbox.call(call, turn, cancel)
    }
}

fn offered(tool: &str, capability: Capability, allowed: Option<&[String]>) -> bool {
    specs(capability, allowed)
        .iter()
        .any(|spec| spec.name == tool)
}

fn specs(capability: Capability, allowed: Option<&[String]>) -> Vec<ToolSpec> {
    let mut specs = tools::specs(capability);
    if let Some(allowed) = allowed {
        specs.retain(|spec| allowed.iter().any(|name| name == spec.name));
    }
    specs
}

/// Agents whose product is a report, by their name.
fn reports(spec: &RunSpec) -> bool {
    let name = spec.agent.as_ref().map(|agent| agent.name.to_lowercase());
    spec.capability == Capability::Readonly
        || name.is_some_and(|name| {
            ["review", "audit", "explor", "investig"]
                .iter()
                .any(|part| name.contains(part))
        })
}

fn rules(spec: &RunSpec) -> Rules {
    let RunSettings {
        max_turns,
        max_output_tokens,
        max_nudges,
        keep_tool_results,
        ..
    } = spec.settings;
    Rules {
        max_turns,
        max_output_tokens,
        max_nudges,
        keep_tool_results: keep_tool_results as usize,
        report_only: reports(spec),
        budgets: (spec.toolset == Toolset::Deepseek).then_some(Budgets::DEEPSEEK),
    }
}

/// A run with any model and any box of tools. `open` blocks and is called on a
/// thread of its own.
async fn conduct<M: Model, B: Workbench>(
    spec: RunSpec,
    run_id: String,
    date: &str,
    model: Result<M, ProviderError>,
    open: impl FnOnce() -> Result<B, NotOpened> + Send + 'static,
    events: &mut (dyn FnMut(RunEvent) + Send),
    cancel: &CancellationToken,
) -> RunOutcome {
    let started = Instant::now();
    let finish = |run: Run| run.outcome(run_id.clone(), spec.settings.max_turns, started);
    let mut model = match model {
        Ok(model) => model,
        Err(error) => return finish(Run::failed(error.class, error.text, None)),
    };
    let toolbox = match open_toolbox(open, cancel).await {
        Opened::Ready(toolbox) => toolbox,
        Opened::Cancelled => return finish(Run::cancelled()),
        Opened::Not(why) => {
            return finish(Run::failed(ErrorClass::Local, why.text, Some(why.code)));
        }
    };
    let enforcement = toolbox.enforcement().clone();
    events(RunEvent::Started {
        run_id: run_id.clone(),
        enforcement: enforcement.clone(),
    });
    let allowed = spec.agent.as_ref().and_then(|agent| agent.tools.clone());
    let specs = specs(spec.capability, allowed.as_deref());
    let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
    let system = prompt::system(&prompt::Facts {
        mode_tag: spec.mode_tag.as_deref(),
        agent: spec.agent.as_ref(),
        workspace: &spec.workspace,
        tools: &names,
        capability: spec.capability,
        date,
        max_turns: spec.settings.max_turns,
    });
    let mut state = Loop::new(
        rules(&spec),
        prompt::task(&spec.task, &spec.context),
        &specs,
    );
    let bench = Bench {
        toolbox,
        capability: spec.capability,
        allowed,
    };
    let end = drive(
        &mut state,
        &mut model,
        &bench,
        Drive {
            system: &system,
            specs: &specs,
            tool_mode: spec.settings.tool_mode,
            started,
            max_run: spec.settings.max_run,
            progress_interval: spec.settings.progress_interval,
        },
        events,
        cancel,
    )
    .await;
    let closing = bench.toolbox.close();
    if tokio::time::timeout(CLOSING, closing).await.is_err() {
        tracing::warn!(%run_id, "the tools took too long to close; their jails were dropped");
    }
    finish(Run {
        end,
        code: None,
        record: state.record,
        facts: state.facts,
        enforcement: Some(enforcement),
        turns: state.answers,
    })
}

enum Opened<B> {
    Ready(B),
    Cancelled,
    Not(NotOpened),
}

async fn open_toolbox<B: Workbench>(
    open: impl FnOnce() -> Result<B, NotOpened> + Send + 'static,
    cancel: &CancellationToken,
) -> Opened<B> {
    let mut opening = tokio::task::spawn_blocking(open);
    let opened = tokio::select! {
        biased;
        () = cancel.cancelled() => {
            // It cannot be interrupted; when it is there it is closed again.
            tokio::spawn(async move {
                if let Ok(Ok(toolbox)) = opening.await {
                    toolbox.close().await;
                }
            });
            return Opened::Cancelled;
        }
        opened = &mut opening => opened,
    };
    match opened {
        Ok(Ok(toolbox)) => Opened::Ready(toolbox),
        Ok(Err(why)) => Opened::Not(why),
        Err(error) => Opened::Not(NotOpened {
            code: "internal".to_owned(),
            text: format!("opening the jail failed inside delegate: {error}"),
        }),
    }
}

/// What is put together into an outcome.
struct Run {
    end: End,
    code: Option<String>,
    record: Record,
    facts: LoopFacts,
    enforcement: Option<Enforcement>,
    turns: u32,
}

impl Run {
    fn failed(class: ErrorClass, text: String, code: Option<String>) -> Self {
        Run {
            end: End {
                outcome: Outcome::Failed,
                class: Some(class),
                text: Some(text),
                final_text: None,
            },
            code,
            record: Record::default(),
            facts: LoopFacts::default(),
            enforcement: None,
            turns: 0,
        }
    }

    fn cancelled() -> Self {
        let mut run = Run::failed(
            ErrorClass::Cancelled,
            "the run was cancelled".to_owned(),
            None,
        );
        run.end.outcome = Outcome::Cancelled;
        run
    }

    fn outcome(self, run_id: String, max_turns: u32, started: Instant) -> RunOutcome {
        let Run {
            end,
            code,
            record,
            mut facts,
            enforcement,
            turns,
        } = self;
        facts.max_turns = max_turns;
        RunOutcome {
            outcome: end.outcome,
            error_class: end.class,
            error_code: code,
            error_text: end.text,
            final_text: end.final_text,
            usage: record.usage,
            executions: record.executions,
            run_id,
            turns,
            mutations: record.mutations,
            enforcement,
            refusals: record.refusals,
            bash: record.bash,
            model: record.model,
            duration_seconds: started.elapsed().as_secs_f64(),
            flags: record.flags,
            facts,
        }
    }
}

#[cfg(test)]
mod tests;
