//! The two kinds of delegation: prepare, run, tell, answer.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use tokio::sync::mpsc;

use super::params::Args;
use super::progress::{BACKLOG, Pump};
use super::results::{self, AgentFacts, DeepseekFacts};
use super::rooms::{AgentOrder, DeepseekOrder, Prepared, Trouble};
use super::server::Server;
use crate::run::{RunOutcome, RunSpec};
use crate::tools::Capability;

/// Most bytes of task and of context.
const MAX_INPUT: usize = 262_144;

/// Shortest interval of signs of life, whatever the configuration says.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// How long a finished run waits for its last progress to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

pub(super) async fn agent(
    server: &Arc<Server>,
    args: &Args,
    context: RequestContext<RoleServer>,
) -> CallToolResult {
    let order = AgentOrder {
        agent_name: args.text("agent_name"),
        task: args.text("task"),
        workdir: args.text("workdir"),
        max_turns: args.int("max_turns").unwrap_or(0),
        model: args.text("model"),
        max_tokens: args.int("max_tokens"),
    };
    let asked = order.clone();
    let entered = server.running.enter(context.ct.clone());
    let prepared = match check_text("task", &order.task, false) {
        Ok(()) => {
            server
                .when_free(&entered, move |rooms| rooms.agent(&order))
                .await
        }
        Err(trouble) => Err(trouble),
    };
    let Prepared {
        spec,
        agent_source,
        notices,
        held,
    } = match prepared {
        Ok(prepared) => prepared,
        Err(trouble) => {
            return results::agent_trouble(
                &trouble,
                &asked.agent_name,
                &asked.model,
                &asked.workdir,
            );
        }
    };
    let facts = AgentFacts {
        agent_name: asked.agent_name,
        agent_source,
        model: spec.endpoint.model.clone(),
        workdir: spec.workspace.display().to_string(),
        max_turns: spec.settings.max_turns,
        notices,
    };
    let run = execute(server, spec, context).await;
    drop(held);
    drop(entered);
    let run = match run {
        Ok(run) => run,
        Err(trouble) => {
            return results::agent_trouble(
                &trouble,
                &facts.agent_name,
                &facts.model,
                &facts.workdir,
            );
        }
    };
    let keep = |text: &str| keep(server, &run.run_id, text);
    results::agent_result(&run, &facts, &keep)
}

pub(super) async fn deepseek(
    server: &Arc<Server>,
    capability: Capability,
    args: &Args,
    context: RequestContext<RoleServer>,
) -> CallToolResult {
    let order = DeepseekOrder {
        task: args.text("task"),
        context: args.text("context"),
        profile: args.text("model"),
        capability,
    };
    let profile = order.profile.clone();
    let refuse = |trouble: &Trouble| results::deepseek_trouble(trouble, capability, &profile);
    if let Err(trouble) = check_text("task", &order.task, false)
        .and_then(|()| check_text("context", &order.context, true))
    {
        return refuse(&trouble);
    }
    let entered = server.running.enter(context.ct.clone());
    let mut slot = Arc::clone(&server.deepseek).try_acquire_owned();
    if slot.is_err() && entered.others_stopped().await {
        slot = Arc::clone(&server.deepseek).try_acquire_owned();
    }
    let Ok(slot) = slot else {
        return refuse(&Trouble::Busy(
            "this server is running another DeepSeek execution; wait for it to end".to_owned(),
        ));
    };
    let prepared = server
        .when_free(&entered, move |rooms| rooms.deepseek(&order))
        .await;
    let Prepared {
        spec,
        notices,
        held,
        ..
    } = match prepared {
        Ok(prepared) => prepared,
        Err(trouble) => return refuse(&trouble),
    };
    let facts = DeepseekFacts {
        capability,
        profile: profile.clone(),
        notices,
    };
    let run = execute(server, spec, context).await;
    // Lease and slot are free before the answer is out: the host may call
    // again at once.
    drop(held);
    drop(slot);
    drop(entered);
    let run = match run {
        Ok(run) => run,
        Err(trouble) => return refuse(&trouble),
    };
    let keep = |text: &str| keep(server, &run.run_id, text);
    results::deepseek_result(&run, &facts, &keep)
}

fn keep(server: &Server, run_id: &str, text: &str) -> Option<String> {
    server
        .rooms
        .keep_answer(run_id, text)
        .map(|path| path.display().to_string())
}

fn check_text(name: &str, text: &str, may_be_blank: bool) -> Result<(), Trouble> {
    if !may_be_blank && text.trim().is_empty() {
        return Err(Trouble::Invalid(format!("`{name}` is blank")));
    }
    if text.len() > MAX_INPUT {
        return Err(Trouble::Invalid(format!(
            "`{name}` has {} bytes; at most {MAX_INPUT} are taken. Put long material into files of the workspace",
            text.len()
        )));
    }
    Ok(())
}

/// Runs to the end, telling the host of progress where it asked for that.
async fn execute(
    server: &Server,
    spec: RunSpec,
    context: RequestContext<RoleServer>,
) -> Result<RunOutcome, Trouble> {
    let cancel = server.shutdown.child_token();
    let (events, pump) = match context.meta.get_progress_token() {
        None => (None, None),
        Some(token) => {
            let (sender, receiver) = mpsc::channel(BACKLOG);
            let pump = Pump {
                peer: context.peer.clone(),
                token,
                interval: spec.settings.progress_interval.max(MIN_INTERVAL),
                stop: cancel.child_token(),
            };
            (Some(sender), Some(tokio::spawn(pump.run(receiver))))
        }
    };
    let outcome = {
        let mut on_event = move |event| {
            if let Some(events) = &events {
                // Full means that the host does not read: it misses this one.
                let _ = events.try_send(event);
            }
        };
        let mut run = server.rooms.execute(spec, &mut on_event, &cancel);
        tokio::select! {
            outcome = &mut run => outcome,
            () = context.ct.cancelled() => {
                cancel.cancel();
                run.await
            }
        }
    };
    // What is still to be told is told before the answer, unless the host
    // does not read or has hung up.
    if let Some(pump) = pump {
        let stop = pump.abort_handle();
        if tokio::time::timeout(LAST_WORDS, pump).await.is_err() {
            stop.abort();
        }
    }
    outcome
}
