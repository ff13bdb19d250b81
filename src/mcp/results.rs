//! Results of the delegation tools: one struct a family, from which the text
//! block, `structuredContent` and `outputSchema` are all made.
//!
//! Hosts that know `structuredContent` show a model nothing else, hosts that
//! do not know it show the text: both say everything. A whole result stays
//! under [`LIMIT`] bytes; what is left out is named in `left_out`.

use std::collections::BTreeMap;

use jail::Enforcement;
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::provider::ErrorClass;
use crate::run::{BashSummary, Outcome, Refusal, RunOutcome};
use crate::tools::Mutation;

/// Most bytes of a whole result as JSON. Hosts cut or refuse more than about 50 KB.
pub(super) const LIMIT: usize = 49_000;

/// How much of what may be long goes into a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes of the answer and of error texts.
    text: usize,
    /// Entries of a list.
    items: usize,
    /// Bytes of one diff.
    diff: usize,
}

/// Tried in this order until a result fits.
const ROOMS: [Room; 6] = [
    room(16_000, 60, 3_000),
    room(12_000, 40, 1_200),
    room(8_000, 30, 400),
    room(4_000, 20, 0),
    room(1_500, 10, 0),
    room(400, 4, 0),
];

impl Room {
    /// Whether even lists of names have to be short.
    fn brief(self) -> bool {
        self.items < 30
    }
}

const fn room(text: usize, items: usize, diff: usize) -> Room {
    Room { text, items, diff }
}

/// Builds a result in the largest room in which it fits.
fn fit(mut build: impl FnMut(Room) -> CallToolResult) -> CallToolResult {
    let mut result = build(ROOMS[0]);
    for room in &ROOMS[1..] {
        if size(&result) <= LIMIT {
            break;
        }
        result = build(*room);
    }
    result
}

fn size(result: &CallToolResult) -> usize {
    serde_json::to_vec(result).map_or(usize::MAX, |bytes| bytes.len())
}

/// A result of a text block and the object that says the same.
pub(super) fn both(text: String, object: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(object);
    result
}

/// As [`both`], the text being the object itself.
pub(super) fn as_json(object: &impl Serialize) -> CallToolResult {
    let value = serde_json::to_value(object).unwrap_or_else(|cause| {
        json!({"ok": false, "success": false, "error": cause.to_string(), "error_code": "internal"})
    });
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    both(text, value)
}

/// The list of agents, as far as there is room.
pub(super) fn agents(list: super::rooms::AgentList) -> CallToolResult {
    fit(|room| {
        let mut list = list.clone();
        // The count stays: it says how many there are, not how many are shown.
        if room.items < ROOMS[0].items {
            list.agents.truncate(room.items * 4);
        }
        as_json(&list)
    })
}

/// The schema of a result type, without references.
pub(super) fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut object = match schema.to_value() {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    object.remove("title");
    object.insert("type".to_owned(), json!("object"));
    object
}

/// A journaled change.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct MutationOut {
    transaction_id: String,
    tool: String,
    path: String,
    /// `committed` or `uncertain`.
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

/// A call or an access that was refused.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RefusalOut {
    turn: u32,
    tool: String,
    /// `tool` (before anything ran) or `kernel`.
    by: String,
    what: String,
}

/// One tool call that ran.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct StepOut {
    turn: u32,
    tool: String,
    /// Path, pattern or command, cut short.
    target: String,
    ok: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BashFailureOut {
    turn: u32,
    /// `nonzero_exit`, `tool_error` or `unknown`.
    status: String,
    exit_code: Option<i32>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct BashOut {
    calls: u32,
    failures: Vec<BashFailureOut>,
    last_status: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct HeldOut {
    /// `enforced`, `detected` or `absent`.
    strength: String,
    /// By which mechanism, or what is missing.
    by: String,
}

/// What the kernel enforced, guarantee by guarantee.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct EnforcementOut {
    backend: String,
    /// `full`, `narrow` or `none`.
    form: String,
    guarantees: BTreeMap<String, HeldOut>,
}

/// Tokens as the provider reported them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
struct TokensOut {
    prompt: u64,
    completion: u64,
    total: u64,
}

/// What both families say of a run.
struct Common {
    outcome: &'static str,
    error_class: Option<String>,
    mutations: Vec<MutationOut>,
    refusals: Vec<RefusalOut>,
    steps: Vec<StepOut>,
    enforcement: Option<EnforcementOut>,
    left_out: Vec<String>,
}

impl Common {
    fn of(run: &RunOutcome, room: Room) -> Common {
        let mut left_out = Vec::new();
        let mut list = |name: &str, all: usize, shown: usize| {
            if all > shown {
                left_out.push(format!("{name}: {} of {all}", all - shown));
            }
        };
        list(
            "mutations, all listed by get_deepseek_recovery",
            run.mutations.len(),
            room.items,
        );
        list("refusals", run.refusals.len(), room.items);
        list("steps", run.executions.len(), room.items);
        let mut cut_diffs = 0;
        let mutations = run
            .mutations
            .iter()
            .take(room.items)
            .map(|mutation| mutation_out(mutation, room, &mut cut_diffs))
            .collect();
        if cut_diffs > 0 {
            left_out.push(format!("diffs, in part or whole: {cut_diffs}"));
        }
        Common {
            outcome: match run.outcome {
                Outcome::Completed => "completed",
                Outcome::Failed => "failed",
                Outcome::Cancelled => "cancelled",
            },
            error_class: run.error_class.map(class_name),
            mutations,
            refusals: run
                .refusals
                .iter()
                .take(room.items)
                .map(refusal_out)
                .collect(),
            steps: run
                .executions
                .iter()
                .take(room.items)
                .map(|done| StepOut {
                    turn: done.turn,
                    tool: done.tool.clone(),
                    target: target_of(&done.args),
                    ok: done.ok,
                })
                .collect(),
            enforcement: run.enforcement.as_ref().map(enforcement_out),
            left_out,
        }
    }
}

fn mutation_out(mutation: &Mutation, room: Room, cut: &mut usize) -> MutationOut {
    let diff = mutation.diff.as_ref().and_then(|diff| {
        if diff.len() <= room.diff {
            return Some(diff.clone());
        }
        *cut += 1;
        (room.diff > 0).then(|| clip(diff, room.diff)).flatten()
    });
    MutationOut {
        transaction_id: mutation.transaction_id.clone(),
        tool: mutation.tool.clone(),
        path: mutation.path.clone(),
        status: mutation.status.clone(),
        warning: mutation
            .warning
            .as_ref()
            .map(|warning| clip(warning, room.text / 20).unwrap_or_else(|| warning.clone())),
        diff,
    }
}

fn refusal_out(refusal: &Refusal) -> RefusalOut {
    RefusalOut {
        turn: refusal.turn,
        tool: refusal.tool.clone(),
        by: refusal.by.clone(),
        what: super::progress::one_line(&refusal.what, 300),
    }
}

fn bash_out(bash: &BashSummary) -> BashOut {
    BashOut {
        calls: bash.calls,
        failures: bash
            .failures
            .iter()
            .take(40)
            .map(|failure| BashFailureOut {
                turn: failure.turn,
                status: failure.status.clone(),
                exit_code: failure.exit_code,
            })
            .collect(),
        last_status: bash.last_status.clone(),
    }
}

fn enforcement_out(enforcement: &Enforcement) -> EnforcementOut {
    EnforcementOut {
        backend: enforcement.backend.clone(),
        form: enforcement.form.to_string(),
        guarantees: enforcement
            .guarantees
            .iter()
            .map(|(guarantee, held)| {
                (
                    guarantee.to_string(),
                    HeldOut {
                        strength: held.strength.to_string(),
                        by: held.by.clone(),
                    },
                )
            })
            .collect(),
    }
}

/// What a call was about, for a list.
fn target_of(args: &Map<String, Value>) -> String {
    ["command", "file_path", "notebook_path", "pattern", "path"]
        .iter()
        .find_map(|name| args.get(*name).and_then(Value::as_str))
        .map(|text| super::progress::one_line(text, 120))
        .unwrap_or_default()
}

/// The serialised name of a class, which is its `error_code`.
pub(super) fn class_name(class: ErrorClass) -> String {
    match serde_json::to_value(class) {
        Ok(Value::String(name)) => name,
        _ => "internal".to_owned(),
    }
}

/// The `error_code` of a run that did not complete.
fn code_of(run: &RunOutcome) -> Option<String> {
    match run.outcome {
        Outcome::Completed => None,
        Outcome::Cancelled => Some("cancelled".to_owned()),
        Outcome::Failed => Some(
            run.error_code
                .clone()
                .or_else(|| run.error_class.map(class_name))
                .unwrap_or_else(|| "internal".to_owned()),
        ),
    }
}

fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn hundredth(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

mod agent;
mod cut;
mod deepseek;
mod recovery;

use cut::{Answer, clip};

pub(super) use agent::{AgentFacts, AgentResult, agent_result, agent_trouble};
pub(super) use deepseek::{DeepseekFacts, DeepseekResult, deepseek_result, deepseek_trouble};
pub(super) use recovery::{
    AckResult, PingResult, RecoveryResult, acknowledged, ping, recovery, recovery_trouble,
};

#[cfg(test)]
mod tests;
