use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};
use tokio::sync::Barrier;

use super::*;
use crate::provider::{Block, Message, Role, Stop, ToolUse};
use crate::run::Outcome;
use crate::run::rules::{Rules, Unfit};

/// One scripted turn.
enum Turn {
    Reply(Vec<Block>),
    /// Never answers; notices cancellation at once or not at all.
    Hang {
        deaf: bool,
    },
    /// Silent for a while, then answers.
    Slow(Duration),
    Fail(ErrorClass),
}

struct Script(VecDeque<Turn>);

impl Script {
    fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Script(turns.into_iter().collect())
    }
}

fn text(text: &str) -> Turn {
    Turn::Reply(vec![Block::Text { text: text.into() }])
}

fn tools(calls: &[(&str, &str)]) -> Turn {
    Turn::Reply(
        calls
            .iter()
            .map(|(name, id)| {
                Block::ToolUse(ToolUse {
                    id: (*id).to_owned(),
                    name: (*name).to_owned(),
                    input: object(json!({"file_path": id})),
                    malformed: None,
                })
            })
            .collect(),
    )
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("object")
}

fn reply(blocks: Vec<Block>) -> TurnReply {
    TurnReply {
        message: Message {
            role: Role::Assistant,
            blocks,
            answered_by: None,
        },
        stop: Stop::EndTurn,
        usage: None,
        model: Some("m".into()),
        flags: Vec::new(),
    }
}

impl Model for Script {
    async fn turn(
        &mut self,
        _request: TurnRequest<'_>,
        cancel: &CancellationToken,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<TurnReply, ProviderError> {
        let fail = |class| ProviderError {
            class,
            text: "no".into(),
            status: None,
            attempts: 1,
        };
        match self.0.pop_front().expect("another turn was scripted") {
            Turn::Reply(blocks) => {
                on(ProviderEvent::Text("piece".into()));
                Ok(reply(blocks))
            }
            Turn::Hang { deaf: true } => std::future::pending().await,
            Turn::Hang { deaf: false } => {
                cancel.cancelled().await;
                Err(fail(ErrorClass::Cancelled))
            }
            Turn::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(reply(vec![Block::Text {
                    text: "late".into(),
                }]))
            }
            Turn::Fail(class) => Err(fail(class)),
        }
    }
}

/// Tools that note what they do. `Read` waits at the barrier if there is one,
/// `Bash` hangs until cancelled, `Edit` hangs for ever.
#[derive(Default)]
struct Bench {
    log: Mutex<Vec<String>>,
    meet: Option<Barrier>,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Names for Bench {
    fn canonical(&self, call: &ToolUse) -> Result<ToolCall, Unfit> {
        let tool = ["Read", "Write", "Bash", "Edit"]
            .into_iter()
            .find(|tool| *tool == call.name)
            .ok_or_else(|| Unfit {
                text: "Error: no such tool".into(),
                refused: None,
            })?;
        Ok(ToolCall {
            tool,
            args: call.input.clone(),
            renamed: false,
            alias: None,
        })
    }
}

impl Tools for Bench {
    async fn call(&self, call: &ToolCall, _turn: u32, cancel: &CancellationToken) -> ToolOutput {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        match (call.tool, &self.meet) {
            ("Read", Some(barrier)) => {
                barrier.wait().await;
            }
            ("Bash", _) => cancel.cancelled().await,
            ("Edit", _) => std::future::pending().await,
            _ => tokio::task::yield_now().await,
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        let path = call.args["file_path"].as_str().unwrap_or_default();
        self.log
            .lock()
            .expect("log")
            .push(format!("{} {path}", call.tool));
        ToolOutput {
            ok: !cancel.is_cancelled(),
            text: "fine".into(),
            ..ToolOutput::default()
        }
    }
}

struct Ran {
    end: End,
    events: Vec<RunEvent>,
    state: Loop,
    wall: Duration,
}

/// Runs a script; `stop_at` cancels when the given event is seen.
async fn run_with(
    script: Script,
    bench: &Bench,
    max_run: Duration,
    stop_at: fn(&RunEvent) -> bool,
) -> Ran {
    let rules = Rules {
        max_turns: 9,
        max_output_tokens: 100,
        max_nudges: 1,
        keep_tool_results: 6,
        report_only: false,
        budgets: None,
    };
    let mut state = Loop::new(rules, "task".into(), &[]);
    let mut script = script;
    let cancel = CancellationToken::new();
    let mut events = Vec::new();
    let mut on = |event: RunEvent| {
        if stop_at(&event) {
            cancel.cancel();
        }
        events.push(event);
    };
    let started = Instant::now();
    let end = drive(
        &mut state,
        &mut script,
        bench,
        Drive {
            system: "s",
            specs: &[],
            tool_mode: ToolMode::Native,
            started,
            max_run,
            progress_interval: Duration::from_millis(10),
        },
        &mut on,
        &cancel,
    )
    .await;
    Ran {
        end,
        events,
        state,
        wall: started.elapsed(),
    }
}

const LONG: Duration = Duration::from_secs(60);

async fn run(script: Script, bench: &Bench) -> Ran {
    run_with(script, bench, LONG, |_| false).await
}

fn started(event: &RunEvent) -> bool {
    matches!(event, RunEvent::ToolStarted { .. })
}

fn turn_began(event: &RunEvent) -> bool {
    matches!(event, RunEvent::Turn { .. })
}

#[tokio::test]
async fn a_run_tells_its_turns_tools_and_text_in_order() {
    let bench = Bench::default();
    let ran = run(
        Script::new([tools(&[("Write", "w")]), text("done")]),
        &bench,
    )
    .await;
    assert_eq!(ran.end.outcome, Outcome::Completed);
    let told: Vec<&str> = ran
        .events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Turn { .. } => Some("turn"),
            RunEvent::Text { .. } => Some("text"),
            RunEvent::ToolStarted { .. } => Some("start"),
            RunEvent::ToolFinished { ok: true, .. } => Some("ok"),
            RunEvent::Alive { .. } => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["turn", "text", "start", "ok", "turn", "text"]);
}

#[tokio::test]
async fn look_ups_run_at_once_and_everything_else_alone_and_in_order() {
    // The barrier opens only when all three are under way.
    let bench = Bench {
        meet: Some(Barrier::new(3)),
        ..Bench::default()
    };
    let calls = [
        ("Write", "1"),
        ("Read", "2"),
        ("Read", "3"),
        ("Read", "4"),
        ("Write", "5"),
        ("Write", "6"),
    ];
    let ran = run(Script::new([tools(&calls), text("done")]), &bench).await;
    assert_eq!(ran.end.outcome, Outcome::Completed);
    let log = bench.log.lock().expect("log").clone();
    assert_eq!(log[0], "Write 1");
    assert_eq!(log[4..], ["Write 5", "Write 6"]);
    assert_eq!(bench.most.load(Ordering::SeqCst), 3);
    let order: Vec<_> = ran
        .state
        .record
        .executions
        .iter()
        .map(|e| e.args["file_path"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(order, ["1", "2", "3", "4", "5", "6"]);
}

#[tokio::test]
async fn cancelling_a_model_call_ends_the_run_within_a_second() {
    for deaf in [false, true] {
        let bench = Bench::default();
        let script = Script::new([Turn::Hang { deaf }]);
        let ran = run_with(script, &bench, LONG, turn_began).await;
        assert_eq!(ran.end.outcome, Outcome::Cancelled, "deaf {deaf}");
        assert!(ran.wall < Duration::from_secs(1), "{:?}", ran.wall);
    }
}

#[tokio::test]
async fn cancelling_a_tool_keeps_what_ran_and_starts_nothing_more() {
    for (tool, ends_itself) in [("Bash", true), ("Edit", false)] {
        let bench = Bench::default();
        let script = Script::new([tools(&[(tool, "1"), ("Write", "2")])]);
        let ran = run_with(script, &bench, LONG, started).await;
        assert_eq!(ran.end.outcome, Outcome::Cancelled);
        assert!(ran.wall < Duration::from_secs(1), "{:?}", ran.wall);
        let log = bench.log.lock().expect("log").clone();
        assert_eq!(log, if ends_itself { vec!["Bash 1"] } else { vec![] });
        let executions = &ran.state.record.executions;
        assert_eq!(executions.len(), 1, "the second never began");
        assert!(!executions[0].ok);
    }
}

#[tokio::test]
async fn the_time_of_a_run_bounds_models_and_tools() {
    let short = Duration::from_millis(30);
    for script in [
        Script::new([Turn::Hang { deaf: false }]),
        Script::new([tools(&[("Bash", "1")])]),
    ] {
        let bench = Bench::default();
        let ran = run_with(script, &bench, short, |_| false).await;
        assert_eq!(ran.end.class, Some(ErrorClass::Budget));
        assert!(
            ran.wall >= short && ran.wall < Duration::from_secs(1),
            "{:?}",
            ran.wall
        );
    }
}

#[tokio::test]
async fn a_silent_model_is_reported_alive() {
    let bench = Bench::default();
    let ran = run(
        Script::new([Turn::Slow(Duration::from_millis(200))]),
        &bench,
    )
    .await;
    assert_eq!(ran.end.final_text.as_deref(), Some("late"));
    let alive = ran
        .events
        .iter()
        .filter(|event| matches!(event, RunEvent::Alive { .. }))
        .count();
    assert!(alive >= 3, "{alive} signs of life in 200 ms at every 10 ms");
}

#[tokio::test]
async fn a_provider_that_claims_to_be_cancelled_failed() {
    let bench = Bench::default();
    let ran = run(Script::new([Turn::Fail(ErrorClass::Cancelled)]), &bench).await;
    assert_eq!(ran.end.outcome, Outcome::Failed);
    let ran = run(Script::new([Turn::Fail(ErrorClass::Auth)]), &bench).await;
    assert_eq!(ran.end.class, Some(ErrorClass::Auth));
}
