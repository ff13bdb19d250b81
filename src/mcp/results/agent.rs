//! Results of the `agents` family.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Answer, BashOut, Common, EnforcementOut, MutationOut, RefusalOut, StepOut, as_json, bash_out,
    clip, code_of, fit, tenth,
};
use crate::mcp::rooms::Trouble;
use crate::provider::{ErrorClass, Usage};
use crate::run::{Outcome, RunOutcome};

/// What the result says besides the run itself.
pub(in crate::mcp) struct AgentFacts {
    pub agent_name: String,
    pub agent_source: Option<String>,
    pub model: String,
    pub workdir: String,
    pub max_turns: u32,
    pub notices: Vec<String>,
}

/// Result of `delegate_to_local_agent`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(in crate::mcp) struct AgentResult {
    /// Whether the agent ended with an answer and nothing left to do.
    success: bool,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Stable code of `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    /// Which agents there are, when the one asked for is not among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    available_hint: Option<String>,
    /// `dispatch` when the time of the whole run was up.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_scope: Option<String>,
    /// The turn in which it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_failed: Option<u32>,
    /// The agent's answer.
    final_response: Option<String>,
    agent_name: String,
    /// `project-agent`, `project-skill` or `global`.
    agent_source: Option<String>,
    /// The model asked for.
    model: String,
    /// The model that answered.
    response_model: Option<String>,
    /// Set when another model answered than was asked for.
    fallback_note: Option<String>,
    routing_info: Option<String>,
    /// Whether the answer came in the last turn.
    terminal_text: bool,
    workdir: String,
    turns: u32,
    max_turns: u32,
    tool_calls: u32,
    malformed_calls: u32,
    deduped_calls: u32,
    evicted_tool_results: u32,
    nudges: u32,
    nudge_reply: Option<String>,
    resumed_after_nudge: bool,
    elapsed_s: f64,
    /// Prompt tokens that were not read from a cache.
    tokens_in: u64,
    tokens_out: u64,
    cache_read_tokens: u64,
    cache_creation_tokens: u64,
    cache_hit_pct: f64,
    /// `end_turn`, `turn_limit_pending_tools`, `max_tokens`, `content_filter` or `unknown`.
    stop_reason: String,
    hit_turn_limit: bool,
    incomplete: bool,
    bash_calls: u32,
    bash_failures: usize,
    last_bash_exit: Option<i32>,
    /// ULID of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// `completed`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// Stable class of a failed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_class: Option<String>,
    /// Journaled file changes of this run. Look at them before you rely on them.
    mutations: Vec<MutationOut>,
    /// What the tools or the kernel refused.
    refusals: Vec<RefusalOut>,
    /// Tool calls that ran, in order.
    steps: Vec<StepOut>,
    /// Bash calls in more detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    bash: Option<BashOut>,
    /// What the kernel enforced while it ran.
    enforcement: Option<EnforcementOut>,
    /// Notes, such as changes of earlier runs that nobody acknowledged.
    notices: Vec<String>,
    /// `arguments_repaired`, `text_tool_call_recovered`, `tool_renamed`.
    flags: Vec<String>,
    /// What did not fit into this result.
    left_out: Vec<String>,
}

/// The result of a run that took place.
pub(in crate::mcp) fn agent_result(
    run: &RunOutcome,
    facts: &AgentFacts,
    keep: &dyn Fn(&str) -> Option<String>,
) -> CallToolResult {
    let mut answer = run
        .final_text
        .as_deref()
        .map(|text| Answer::new(text, keep));
    fit(|room| {
        let mut common = Common::of(run, room);
        let final_response = answer
            .as_mut()
            .map(|answer| answer.within(room, &mut common.left_out));
        let error = run
            .error_text
            .as_ref()
            .map(|text| clip(text, room.text).unwrap_or_else(|| text.clone()));
        let has_text = run
            .final_text
            .as_ref()
            .is_some_and(|text| !text.trim().is_empty());
        let completed = run.outcome == Outcome::Completed;
        let hit_turn_limit = run.error_class == Some(ErrorClass::TurnLimit);
        let stop_reason = stop_reason(run);
        let incomplete = !completed
            || !has_text
            || hit_turn_limit
            || ["max_tokens", "content_filter", "unknown"].contains(&stop_reason.as_str());
        let usage = run.usage.unwrap_or_default();
        let budget = run.error_class == Some(ErrorClass::Budget);
        as_json(&AgentResult {
            success: !incomplete,
            error: error.or_else(|| {
                (completed && incomplete).then(|| {
                    if has_text {
                        format!("the last answer was not finished ({stop_reason})")
                    } else {
                        "the agent ended without an answer".to_owned()
                    }
                })
            }),
            error_code: code_of(run).or_else(|| {
                incomplete.then(|| {
                    let code = if has_text {
                        "incomplete"
                    } else {
                        "empty_response"
                    };
                    code.to_owned()
                })
            }),
            available_hint: None,
            timeout_scope: budget.then(|| "dispatch".to_owned()),
            turn_failed: (!completed).then_some(run.turns),
            final_response,
            agent_name: facts.agent_name.clone(),
            agent_source: facts.agent_source.clone(),
            model: facts.model.clone(),
            fallback_note: run
                .model
                .as_ref()
                .filter(|answered| **answered != facts.model)
                .map(|answered| format!("answered_by: {answered} (requested {})", facts.model)),
            response_model: run.model.clone(),
            routing_info: None,
            terminal_text: run.facts.terminal_text,
            workdir: facts.workdir.clone(),
            turns: run.turns,
            max_turns: facts.max_turns.max(run.facts.max_turns),
            tool_calls: run.facts.tool_calls,
            malformed_calls: run.facts.malformed_calls,
            deduped_calls: run.facts.deduped_calls,
            evicted_tool_results: run.facts.evicted_tool_results,
            nudges: run.facts.nudges,
            nudge_reply: run
                .facts
                .nudge_reply
                .as_ref()
                .map(|text| clip(text, room.text / 4).unwrap_or_else(|| text.clone())),
            resumed_after_nudge: run.facts.resumed_after_nudge,
            elapsed_s: tenth(run.duration_seconds),
            tokens_in: usage.input_tokens.saturating_sub(usage.cache_read_tokens),
            tokens_out: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_creation_tokens: usage.cache_creation_tokens,
            cache_hit_pct: hit_percent(usage),
            stop_reason,
            hit_turn_limit,
            incomplete,
            bash_calls: run.bash.calls,
            bash_failures: run.bash.failures.len(),
            last_bash_exit: run.bash.last_exit,
            run_id: Some(run.run_id.clone()),
            outcome: Some(common.outcome.to_owned()),
            error_class: common.error_class,
            mutations: common.mutations,
            refusals: common.refusals,
            steps: common.steps,
            bash: (run.bash.calls > 0).then(|| bash_out(&run.bash)),
            enforcement: common.enforcement,
            notices: facts.notices.clone(),
            flags: run.flags.clone(),
            left_out: common.left_out,
        })
    })
}

/// The result of a call that did not become a run.
pub(in crate::mcp) fn agent_trouble(
    trouble: &Trouble,
    agent_name: &str,
    model: &str,
    workdir: &str,
) -> CallToolResult {
    as_json(&AgentResult {
        error: Some(trouble.to_string()),
        error_code: Some(trouble.code().to_owned()),
        available_hint: match trouble {
            Trouble::NoAgent { available_hint, .. } => Some(available_hint.clone()),
            _ => None,
        },
        agent_name: agent_name.to_owned(),
        model: model.to_owned(),
        workdir: workdir.to_owned(),
        stop_reason: "unknown".to_owned(),
        incomplete: true,
        ..AgentResult::default()
    })
}

fn stop_reason(run: &RunOutcome) -> String {
    let reason = match (&run.facts.stop_reason, run.outcome, run.error_class) {
        (Some(reason), ..) => reason,
        (None, _, Some(ErrorClass::TurnLimit)) => "turn_limit_pending_tools",
        (None, Outcome::Completed, _) => "end_turn",
        _ => "unknown",
    };
    reason.to_owned()
}

fn hit_percent(usage: Usage) -> f64 {
    if usage.input_tokens == 0 {
        return 0.0;
    }
    tenth(usage.cache_read_tokens as f64 * 100.0 / usage.input_tokens as f64)
}
