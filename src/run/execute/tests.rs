use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::json;
use url::Url;

use super::*;
use crate::config::{Endpoint, ToolMode, Wire};
use crate::provider::{Block, Message, Role, Stop, ToolUse};
use crate::run::AgentPrompt;

fn spec(capability: Capability) -> RunSpec {
    RunSpec {
        task: "do it".into(),
        context: String::new(),
        capability,
        workspace: "/work/p".into(),
        endpoint: Endpoint {
            base_url: Url::parse("http://127.0.0.1:1/v1").expect("url"),
            wire: Wire::Openai,
            model: "m".into(),
            key: None,
            extra_body: serde_json::Map::new(),
        },
        settings: RunSettings {
            tool_mode: ToolMode::Native,
            max_turns: 5,
            ..RunSettings::default()
        },
        agent: None,
        toolset: Toolset::Agents,
        state_dir: "/state".into(),
        mode_tag: None,
    }
}

/// System prompt and tool names of each request.
type Seen = Arc<Mutex<Vec<(String, Vec<&'static str>)>>>;

/// Answers one call of each named tool, then text; keeps what it was sent.
struct Fake {
    calls: Vec<&'static str>,
    seen: Seen,
}

impl Model for Fake {
    async fn turn(
        &mut self,
        request: TurnRequest<'_>,
        _cancel: &CancellationToken,
        _on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<TurnReply, ProviderError> {
        let names = request.tools.iter().map(|tool| tool.name).collect();
        self.seen
            .lock()
            .expect("seen")
            .push((request.system.to_owned(), names));
        let blocks = match self.calls.pop() {
            Some(name) => vec![Block::ToolUse(ToolUse {
                id: format!("c{}", self.calls.len()),
                name: name.to_owned(),
                input: json!({"file_path": "a", "content": "x"})
                    .as_object()
                    .cloned()
                    .expect("object"),
                malformed: None,
            })],
            None => vec![Block::Text {
                text: "done".into(),
            }],
        };
        Ok(TurnReply {
            message: Message {
                role: Role::Assistant,
                blocks,
                answered_by: None,
            },
            stop: Stop::EndTurn,
            usage: None,
            model: None,
            flags: Vec::new(),
        })
    }
}

/// A box that succeeds and says when it was closed.
struct Shelf {
    closed: Arc<Mutex<u32>>,
    enforcement: Enforcement,
}

impl Workbench for Shelf {
    fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    async fn call(&self, _: &ToolCall, _: u32, _: &CancellationToken) -> ToolOutput {
        ToolOutput {
            ok: true,
            text: "fine".into(),
            ..ToolOutput::default()
        }
    }

    async fn close(self) {
        *self.closed.lock().expect("closed") += 1;
    }
}

fn shelf(closed: &Arc<Mutex<u32>>) -> Shelf {
    Shelf {
        closed: Arc::clone(closed),
        enforcement: Enforcement {
            backend: "none".into(),
            form: jail::Form::None,
            guarantees: BTreeMap::new(),
        },
    }
}

struct Ran {
    outcome: RunOutcome,
    closed: u32,
    seen: Vec<(String, Vec<&'static str>)>,
    events: Vec<RunEvent>,
}

async fn run(spec: RunSpec, calls: &[&'static str]) -> Ran {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let closed = Arc::new(Mutex::new(0));
    let model = Fake {
        calls: calls.iter().rev().copied().collect(),
        seen: Arc::clone(&seen),
    };
    let bench = shelf(&closed);
    let mut events = Vec::new();
    let outcome = conduct(
        spec,
        "01RUN".into(),
        "2026-11-30",
        Ok(model),
        move || Ok(bench),
        &mut |event| events.push(event),
        &CancellationToken::new(),
    )
    .await;
    let closed = *closed.lock().expect("closed");
    let seen = seen.lock().expect("seen").clone();
    Ran {
        outcome,
        closed,
        seen,
        events,
    }
}

#[tokio::test]
async fn a_run_is_told_opened_driven_and_closed() {
    let ran = run(spec(Capability::Coding), &["Write"]).await;
    assert_eq!(ran.outcome.outcome, Outcome::Completed);
    assert_eq!(ran.outcome.final_text.as_deref(), Some("done"));
    assert_eq!((ran.outcome.turns, ran.closed), (2, 1));
    assert_eq!(ran.outcome.run_id, "01RUN");
    assert!(matches!(&ran.events[0], RunEvent::Started { run_id, .. } if run_id == "01RUN"));
    assert_eq!(ran.outcome.executions[0].tool, "Write");
    assert_eq!(
        ran.seen[0], ran.seen[1],
        "the same prompt and tools every turn"
    );
    assert!(ran.seen[0].0.contains("2026-11-30"));
}

#[tokio::test]
async fn a_read_only_run_offers_and_runs_three_tools() {
    let ran = run(spec(Capability::Readonly), &["Write", "Bash"]).await;
    assert_eq!(ran.seen[0].1, ["Read", "Glob", "Grep"]);
    assert!(ran.outcome.executions.is_empty());
    let refused: Vec<_> = ran
        .outcome
        .refusals
        .iter()
        .map(|r| r.tool.as_str())
        .collect();
    assert_eq!(
        refused,
        ["Write"],
        "Bash lacks its argument and would not run anywhere"
    );
    let twin = run(spec(Capability::Coding), &["Write"]).await;
    assert_eq!(twin.outcome.executions.len(), 1);
    assert_eq!(twin.seen[0].1.len(), 7);
}

#[tokio::test]
async fn an_agent_has_its_name_body_and_no_more_than_its_tools() {
    let mut spec = spec(Capability::Coding);
    spec.mode_tag = Some("MODE:LOCAL".into());
    spec.agent = Some(AgentPrompt {
        name: "code-reviewer".into(),
        body: "Be kind.".into(),
        tools: Some(vec!["Read".into()]),
    });
    let ran = run(spec, &["Write", "Read"]).await;
    assert_eq!(ran.seen[0].1, ["Read"]);
    assert!(ran.seen[0].0.starts_with("MODE:LOCAL\n"));
    assert!(ran.seen[0].0.ends_with("Be kind."));
    let tools: Vec<_> = ran
        .outcome
        .executions
        .iter()
        .map(|e| e.tool.as_str())
        .collect();
    assert_eq!(tools, ["Read"]);
    assert_eq!(ran.outcome.refusals.len(), 1);
}

#[tokio::test]
async fn without_a_jail_nothing_is_asked_and_the_code_says_why() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let model = Fake {
        calls: vec![],
        seen: Arc::clone(&seen),
    };
    let outcome = conduct(
        spec(Capability::Coding),
        "01RUN".into(),
        "2026-11-30",
        Ok(model),
        || -> Result<Shelf, NotOpened> {
            Err(NotOpened {
                code: "jail_below_floor".into(),
                text: "no namespaces".into(),
            })
        },
        &mut |event| panic!("{event:?}"),
        &CancellationToken::new(),
    )
    .await;
    assert_eq!(outcome.outcome, Outcome::Failed);
    assert_eq!(outcome.error_class, Some(ErrorClass::Local));
    assert_eq!(outcome.error_code.as_deref(), Some("jail_below_floor"));
    assert!(seen.lock().expect("seen").is_empty());
}

#[tokio::test]
async fn a_run_cancelled_while_its_jail_opens_ends_at_once_and_closes_it_later() {
    let closed = Arc::new(Mutex::new(0));
    let bench = shelf(&closed);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = conduct(
        spec(Capability::Coding),
        "01RUN".into(),
        "2026-11-30",
        Ok(Fake {
            calls: vec![],
            seen: Arc::default(),
        }),
        move || {
            let _ = wait.recv();
            Ok(bench)
        },
        &mut |event| panic!("{event:?}"),
        &cancel,
    )
    .await;
    assert_eq!(outcome.outcome, Outcome::Cancelled);
    go.send(()).expect("it waits");
    while *closed.lock().expect("closed") == 0 {
        tokio::task::yield_now().await;
    }
}

/// §6 of the corpus, and what the command adds.
#[tokio::test]
async fn the_outcome_as_json_has_the_fields_that_programs_read() {
    let ran = run(spec(Capability::Coding), &["Write"]).await;
    let json = serde_json::to_value(&ran.outcome).expect("json");
    for name in [
        "outcome",
        "error_class",
        "error_text",
        "final_text",
        "usage",
        "executions",
        "run_id",
        "turns",
        "mutations",
        "enforcement",
    ] {
        assert!(json.get(name).is_some(), "{name}");
    }
    assert_eq!(json["outcome"], "completed");
    assert_eq!(json["usage"], serde_json::Value::Null);
    assert_eq!(json["executions"][0]["tool"], "Write");
    assert_eq!(json["executions"][0]["ok"], true);
}
