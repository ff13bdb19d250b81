//! Does what the loop says: asks the model, runs the tools, watches clock and
//! cancellation, tells what happens.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesOrdered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::provider::{
    ErrorClass, ProviderError, ProviderEvent, ToolMode, ToolSpec, TurnReply, TurnRequest,
};
use crate::tools::{ToolCall, ToolOutput};

use super::RunEvent;
use super::record::{call_line, output_line};
use super::rules::{Action, Done, End, Event, Names, Planned};
use super::step::Loop;

/// How long a model call or a tool may take to stop once it was told to. The
/// rest of the second goes to closing the toolbox.
const GRACE: Duration = Duration::from_millis(600);
/// Look-ups that run at the same time.
const PARALLEL: usize = 8;

/// Something that answers turns.
pub trait Model: Send {
    /// One turn; all retries are inside. Returns soon after `cancel` fires.
    fn turn(
        &mut self,
        request: TurnRequest<'_>,
        cancel: &CancellationToken,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> impl Future<Output = Result<TurnReply, ProviderError>> + Send;
}

/// Something that runs tool calls.
pub trait Tools: Names + Sync {
    /// Runs one call. Returns soon after `cancel` fires.
    fn call(
        &self,
        call: &ToolCall,
        turn: u32,
        cancel: &CancellationToken,
    ) -> impl Future<Output = ToolOutput> + Send;
}

/// What stays the same for all turns of a run.
#[derive(Clone, Copy, Debug)]
pub struct Drive<'a> {
    /// System prompt.
    pub system: &'a str,
    /// Offered tools.
    pub specs: &'a [ToolSpec],
    /// How they are offered.
    pub tool_mode: ToolMode,
    /// When the run began.
    pub started: Instant,
    /// How long it may take.
    pub max_run: Duration,
    /// Longest silence towards the host.
    pub progress_interval: Duration,
}

/// Why something was stopped from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    Cancelled,
    OutOfTime,
}

impl Halt {
    fn event(self, done: Vec<Done>) -> Event {
        match self {
            Halt::Cancelled => Event::Cancelled(done),
            Halt::OutOfTime => Event::OutOfTime(done),
        }
    }
}

/// Drives a run to its end.
pub async fn drive<M: Model, T: Tools>(
    state: &mut Loop,
    model: &mut M,
    tools: &T,
    drive: Drive<'_>,
    events: &mut (dyn FnMut(RunEvent) + Send),
    cancel: &CancellationToken,
) -> End {
    let mut watch = Watch::new(drive, events, cancel);
    let mut event = Event::Start;
    let mut told = 0;
    loop {
        event = match state.step(event, tools) {
            Action::End(end) => return end,
            Action::Ask { turn } => {
                if turn > told {
                    told = turn;
                    watch.tell(RunEvent::Turn {
                        turn,
                        max_turns: state.max_turns(),
                    });
                }
                ask(state, model, &mut watch).await
            }
            Action::Call(planned) => {
                let turn = state.turn;
                call(planned, turn, tools, &mut watch).await
            }
        };
    }
}

/// Events, signs of life, and the two reasons to stop.
struct Watch<'a> {
    drive: Drive<'a>,
    events: &'a mut (dyn FnMut(RunEvent) + Send),
    cancel: &'a CancellationToken,
    deadline: tokio::time::Instant,
    /// When the next sign of life is due.
    due: tokio::time::Instant,
}

impl<'a> Watch<'a> {
    fn new(
        drive: Drive<'a>,
        events: &'a mut (dyn FnMut(RunEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> Self {
        let now = tokio::time::Instant::now();
        let spent = drive.started.elapsed();
        Watch {
            deadline: now + drive.max_run.saturating_sub(spent),
            due: now + drive.progress_interval,
            drive,
            events,
            cancel,
        }
    }

    fn tell(&mut self, event: RunEvent) {
        self.due = tokio::time::Instant::now() + self.drive.progress_interval;
        (self.events)(event);
    }

    fn alive(&mut self) {
        let elapsed = self.drive.started.elapsed().as_millis();
        self.tell(RunEvent::Alive {
            elapsed_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
        });
    }

    /// Fires when the run has to stop.
    async fn halted(cancel: &CancellationToken, deadline: tokio::time::Instant) -> Halt {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Halt::Cancelled,
            () = sleep_until(deadline) => Halt::OutOfTime,
        }
    }
}

/// One model call.
async fn ask<M: Model>(state: &mut Loop, model: &mut M, watch: &mut Watch<'_>) -> Event {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let scope = watch.cancel.child_token();
    let mut on = move |event| {
        // The receiver lives as long as the call.
        let _ = sender.send(event);
    };
    let mut structured = false;
    let reply = {
        let request = TurnRequest {
            system: watch.drive.system,
            messages: state.messages(),
            tools: watch.drive.specs,
            max_output_tokens: state.max_output_tokens(),
            tool_mode: watch.drive.tool_mode,
        };
        let mut turn = std::pin::pin!(model.turn(request, &scope, &mut on));
        let mut halted = std::pin::pin!(Watch::halted(watch.cancel, watch.deadline));
        loop {
            tokio::select! {
                biased;
                halt = &mut halted => {
                    scope.cancel();
                    // Only so that the connection is closed in good order.
                    let _ = timeout(GRACE, &mut turn).await;
                    break Err(halt);
                }
                Some(event) = receiver.recv() => provider_event(event, watch, &mut structured),
                reply = &mut turn => break Ok(reply),
                () = sleep_until(watch.due) => watch.alive(),
            }
        }
    };
    while let Ok(event) = receiver.try_recv() {
        provider_event(event, watch, &mut structured);
    }
    if structured {
        state.record.flag("structured_mode");
    }
    match reply {
        Err(halt) => halt.event(Vec::new()),
        Ok(Ok(reply)) => Event::Reply(reply),
        // Nobody cancelled: then it is the provider's own failure.
        Ok(Err(error)) if error.class == ErrorClass::Cancelled => {
            Event::ModelFailed(ProviderError {
                class: ErrorClass::Transport,
                ..error
            })
        }
        Ok(Err(error)) => Event::ModelFailed(error),
    }
}

fn provider_event(event: ProviderEvent, watch: &mut Watch<'_>, structured: &mut bool) {
    match event {
        ProviderEvent::Text(text) => watch.tell(RunEvent::Text { text }),
        ProviderEvent::Retrying { class, wait } => watch.tell(RunEvent::Retrying {
            class,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }),
        ProviderEvent::ModeSwitched => *structured = true,
        ProviderEvent::Sent { .. } | ProviderEvent::Thinking(_) => {}
    }
}

/// All calls of one answer: runs of look-ups at once, everything else alone
/// and in order.
async fn call<T: Tools>(
    planned: Vec<Planned>,
    turn: u32,
    tools: &T,
    watch: &mut Watch<'_>,
) -> Event {
    let mut done = Vec::new();
    let mut rest = planned.as_slice();
    while let Some(first) = rest.first() {
        let together = if first.parallel {
            rest.iter()
                .take(PARALLEL)
                .take_while(|planned| planned.parallel)
                .count()
        } else {
            1
        };
        let (group, later) = rest.split_at(together);
        rest = later;
        if let Some(halt) = run_group(group, turn, tools, watch, &mut done).await {
            return halt.event(done);
        }
    }
    Event::Results(done)
}

async fn run_group<T: Tools>(
    group: &[Planned],
    turn: u32,
    tools: &T,
    watch: &mut Watch<'_>,
    done: &mut Vec<Done>,
) -> Option<Halt> {
    // Between two calls nothing else looks at the token.
    if watch.cancel.is_cancelled() {
        return Some(Halt::Cancelled);
    }
    if tokio::time::Instant::now() >= watch.deadline {
        return Some(Halt::OutOfTime);
    }
    for planned in group {
        watch.tell(RunEvent::ToolStarted {
            turn,
            tool: planned.call.tool.to_owned(),
            summary: call_line(&planned.call),
        });
    }
    let scope = watch.cancel.child_token();
    // In the order in which they began: whoever watches can match the ends to
    // the beginnings.
    let mut running: FuturesOrdered<_> = group
        .iter()
        .map(|planned| {
            let scope = scope.clone();
            async move {
                let began = Instant::now();
                let output = tools.call(&planned.call, turn, &scope).await;
                (planned, output, began.elapsed())
            }
        })
        .collect();
    let mut left: Vec<usize> = group.iter().map(|planned| planned.index).collect();
    let mut halted = std::pin::pin!(Watch::halted(watch.cancel, watch.deadline));
    let mut halt = None;
    loop {
        let next = tokio::select! {
            biased;
            why = &mut halted, if halt.is_none() => {
                halt = Some((why, tokio::time::Instant::now() + GRACE));
                scope.cancel();
                continue;
            }
            next = running.next() => next,
            () = sleep_until(halt.map_or(watch.due, |(_, end)| end)) => {
                if halt.is_some() {
                    break;
                }
                watch.alive();
                continue;
            }
        };
        let Some((planned, output, wall)) = next else {
            break;
        };
        left.retain(|index| *index != planned.index);
        watch.tell(finished(planned, turn, &output, wall));
        done.push(Done {
            index: planned.index,
            output,
        });
    }
    // What did not stop in time ran all the same, and may have done something.
    for index in left {
        done.push(Done {
            index,
            output: ToolOutput {
                ok: false,
                text: "ERROR: stopped before it ended; it may have taken effect.".to_owned(),
                ..ToolOutput::default()
            },
        });
    }
    halt.map(|(why, _)| why)
}

fn finished(planned: &Planned, turn: u32, output: &ToolOutput, wall: Duration) -> RunEvent {
    RunEvent::ToolFinished {
        turn,
        tool: planned.call.tool.to_owned(),
        ok: output.ok,
        summary: output_line(&planned.call, output),
        denials: output
            .bash
            .as_ref()
            .map(|facts| facts.denials.clone())
            .unwrap_or_default(),
        refused: output.refused.clone(),
        mutation: output.mutation.clone(),
        wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests;
