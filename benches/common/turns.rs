//! The loop alone: a model and tools that take no time.

use std::time::{Duration, Instant};

use delegate::provider::{
    Block, Message, ProviderError, ProviderEvent, Role, Stop, ToolMode, ToolUse, TurnReply,
    TurnRequest, Usage,
};
use delegate::run::step::Loop;
use delegate::run::{Drive, Model, Names, Outcome, Rules, Tools, Unfit, drive};
use delegate::tools::{Capability, ToolCall, ToolOutput, specs};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

const TURNS: u32 = 40;

/// The share of one turn in a run of many: each answer reads another file.
pub async fn one_of_many() -> Duration {
    let tools = specs(Capability::Readonly);
    let rules = Rules {
        max_turns: TURNS + 1,
        max_output_tokens: 4096,
        max_nudges: 0,
        keep_tool_results: 8,
        report_only: false,
        budgets: None,
    };
    let cancel = CancellationToken::new();
    let begun = Instant::now();
    let mut state = Loop::new(rules, "Look at every file.".to_owned(), &tools);
    let end = drive(
        &mut state,
        &mut Unthinking { turn: 0 },
        &Fileless,
        Drive {
            system: "You are a coding sub-agent.",
            specs: &tools,
            tool_mode: ToolMode::Native,
            started: begun,
            max_run: Duration::from_secs(60),
            progress_interval: Duration::from_secs(5),
        },
        &mut |_| {},
        &cancel,
    )
    .await;
    let spent = begun.elapsed();
    assert_eq!(end.outcome, Outcome::Completed, "{:?}", end.text);
    spent / TURNS
}

struct Unthinking {
    turn: u32,
}

impl Model for Unthinking {
    async fn turn(
        &mut self,
        _: TurnRequest<'_>,
        _: &CancellationToken,
        _: &mut (dyn FnMut(ProviderEvent) + Send),
    ) -> Result<TurnReply, ProviderError> {
        self.turn += 1;
        let last = self.turn >= TURNS;
        let block = if last {
            Block::Text {
                text: "Every file was looked at.".to_owned(),
            }
        } else {
            Block::ToolUse(ToolUse {
                id: format!("call_{}", self.turn),
                name: "Read".to_owned(),
                input: arguments(self.turn),
                malformed: None,
            })
        };
        Ok(TurnReply {
            message: Message {
                role: Role::Assistant,
                blocks: vec![block],
                answered_by: None,
            },
            stop: if last { Stop::EndTurn } else { Stop::ToolUse },
            usage: Some(Usage::default()),
            model: None,
            flags: Vec::new(),
        })
    }
}

fn arguments(turn: u32) -> Map<String, Value> {
    Map::from_iter([("file_path".to_owned(), format!("file-{turn}.txt").into())])
}

struct Fileless;

impl Names for Fileless {
    fn canonical(&self, call: &ToolUse) -> Result<ToolCall, Unfit> {
        Ok(ToolCall {
            tool: "Read",
            args: call.input.clone(),
            renamed: false,
            alias: None,
        })
    }
}

impl Tools for Fileless {
    async fn call(&self, _: &ToolCall, _: u32, _: &CancellationToken) -> ToolOutput {
        ToolOutput {
            ok: true,
            text: "x".repeat(1024),
            ..ToolOutput::default()
        }
    }
}
