//! Results of the two DeepSeek delegation tools: prose, and an object that
//! says the same.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Answer, BashOut, Common, EnforcementOut, MutationOut, RefusalOut, Room, StepOut, TokensOut,
    bash_out, both, clip, code_of, fit, hundredth,
};
use crate::mcp::rooms::Trouble;
use crate::run::{Outcome, RunOutcome};
use crate::tools::{Capability, Mutation};

/// What the result says besides the run itself.
pub(in crate::mcp) struct DeepseekFacts {
    pub capability: Capability,
    pub profile: String,
    /// Notes for the caller.
    pub notices: Vec<String>,
}

/// Result of `delegate_to_deepseek` and `delegate_to_deepseek_readonly`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(in crate::mcp) struct DeepseekResult {
    /// Whether the run ended with an answer.
    ok: bool,
    /// What went wrong; begins with the same stable words as the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Stable code of `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    /// The answer, after any notice about changes that must be acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    final_message: Option<String>,
    /// `coding` or `readonly`.
    capability: String,
    /// `flash` or `pro`.
    model: String,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_model: Option<String>,
    turns_used: u32,
    /// As the provider reported them; 0 when it reported none.
    tokens: TokensOut,
    tool_calls: u32,
    duration_seconds: f64,
    /// Journaled file changes; check and acknowledge them.
    mutations: Vec<MutationOut>,
    /// Bash calls, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    bash: Option<BashOut>,
    /// What the tools or the kernel refused.
    refusals: Vec<RefusalOut>,
    /// Tool calls that ran, in order.
    steps: Vec<StepOut>,
    /// What the kernel enforced while it ran.
    enforcement: Option<EnforcementOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// `completed`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    notices: Vec<String>,
    /// What did not fit into this result.
    left_out: Vec<String>,
}

/// The result of a run that took place.
pub(in crate::mcp) fn deepseek_result(
    run: &RunOutcome,
    facts: &DeepseekFacts,
    keep: &dyn Fn(&str) -> Option<String>,
) -> CallToolResult {
    let mut answer = run
        .final_text
        .as_deref()
        .map(|text| Answer::new(text, keep));
    fit(|room| {
        let mut common = Common::of(run, room);
        let text = answer
            .as_mut()
            .map(|answer| answer.within(room, &mut common.left_out))
            .filter(|text| !text.trim().is_empty())
            .unwrap_or_else(|| "(empty response)".to_owned());
        let (shown, final_message, error) = if run.outcome == Outcome::Completed {
            let mut message = notice(&run.mutations, room);
            message.push_str(&safety(&run.mutations, room));
            message.push_str(&text);
            let shown = format!("{message}\n\n---\n{}", footer(run, &common.left_out));
            (shown, Some(message), None)
        } else {
            let error = failure(run, room);
            (error.clone(), None, Some(error))
        };
        let usage = run.usage.unwrap_or_default();
        let object = DeepseekResult {
            ok: run.outcome == Outcome::Completed,
            error,
            error_code: code_of(run),
            final_message,
            capability: capability_name(facts.capability).to_owned(),
            model: facts.profile.clone(),
            response_model: run.model.clone(),
            turns_used: run.turns,
            tokens: TokensOut {
                prompt: usage.input_tokens,
                completion: usage.output_tokens,
                total: usage.input_tokens + usage.output_tokens,
            },
            tool_calls: run.facts.tool_calls,
            duration_seconds: hundredth(run.duration_seconds),
            mutations: common.mutations,
            bash: (run.bash.calls > 0).then(|| bash_out(&run.bash)),
            refusals: common.refusals,
            steps: common.steps,
            enforcement: common.enforcement,
            run_id: Some(run.run_id.clone()),
            outcome: Some(common.outcome.to_owned()),
            notices: facts.notices.clone(),
            left_out: common.left_out,
        };
        both(shown, to_value(&object))
    })
}

/// The result of a call that did not become a run. The first words are stable.
pub(in crate::mcp) fn deepseek_trouble(
    trouble: &Trouble,
    capability: Capability,
    profile: &str,
) -> CallToolResult {
    let text = match trouble {
        Trouble::ModeOff => trouble.to_string(),
        Trouble::NotConfigured(why) => format!("ERROR: deepseek-mcp not configured: {why}"),
        Trouble::Invalid(why) => format!("ERROR: invalid DeepSeek delegation input: {why}"),
        Trouble::Busy(why) => format!("ERROR: DeepSeek execution busy: {why}"),
        Trouble::Blocked(why) => format!("ERROR: DeepSeek execution blocked: {why}"),
        Trouble::Jail(why) => format!("ERROR: DeepSeek agent loop failed: {why}"),
        Trouble::NoAgent { text, .. } | Trouble::Other(text) => {
            format!("ERROR: unexpected DeepSeek failure: {text}")
        }
    };
    let object = DeepseekResult {
        error: Some(text.clone()),
        error_code: Some(trouble.code().to_owned()),
        capability: capability_name(capability).to_owned(),
        model: profile.to_owned(),
        ..DeepseekResult::default()
    };
    both(text, to_value(&object))
}

pub(in crate::mcp) fn capability_name(capability: Capability) -> &'static str {
    match capability {
        Capability::Coding => "coding",
        Capability::Readonly => "readonly",
    }
}

fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

const STEPS_TO_ACKNOWLEDGE: &str = "Before the next delegation in this workspace: \
     1. call get_deepseek_recovery; 2. check each listed file yourself; \
     3. call acknowledge_deepseek_mutations with the IDs that you checked. \
     New DeepSeek runs are refused until then.";

/// All changes: without its ID nothing can be acknowledged.
fn list(mutations: &[Mutation], room: Room) -> String {
    mutations
        .iter()
        .map(|mutation| {
            if room.brief() {
                return mutation.transaction_id.clone();
            }
            format!(
                "{} ({} {}, {})",
                mutation.transaction_id, mutation.tool, mutation.path, mutation.status
            )
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn notice(mutations: &[Mutation], room: Room) -> String {
    if mutations.is_empty() {
        return String::new();
    }
    format!(
        "[deepseek-mcp recovery required] Journaled changes of this run: {}. {STEPS_TO_ACKNOWLEDGE}\n\n",
        list(mutations, room)
    )
}

fn safety(mutations: &[Mutation], room: Room) -> String {
    let warnings: Vec<String> = mutations
        .iter()
        .filter_map(|mutation| {
            let warning = mutation.warning.as_ref()?;
            let warning = clip(warning, room.text / 20).unwrap_or_else(|| warning.clone());
            Some(format!("{}: {warning}", mutation.transaction_id))
        })
        .collect();
    if warnings.is_empty() {
        return String::new();
    }
    format!(
        "[deepseek-mcp transaction safety] These changes are in place, but something went wrong after them; do not make them again. {}\n\n",
        warnings.join("; ")
    )
}

fn failure(run: &RunOutcome, room: Room) -> String {
    let cause = run.error_text.as_deref().unwrap_or("no cause given");
    let cause = clip(cause, room.text).unwrap_or_else(|| cause.to_owned());
    let what = match run.outcome {
        Outcome::Cancelled => "DeepSeek run cancelled",
        _ => "DeepSeek agent loop failed",
    };
    if run.mutations.is_empty() {
        return format!("ERROR: {what}: {cause}");
    }
    format!(
        "ERROR: {what} after it had changed files. DO NOT RETRY before you have looked at them. \
         Changes: {}. {STEPS_TO_ACKNOWLEDGE} Cause: {cause}",
        list(&run.mutations, room)
    )
}

fn footer(run: &RunOutcome, left_out: &[String]) -> String {
    let usage = run.usage.unwrap_or_default();
    let mut footer = format!(
        "[deepseek-mcp] {} turns, {} tool calls, {} tokens, {:.1}s",
        run.turns,
        run.facts.tool_calls,
        usage.input_tokens + usage.output_tokens,
        run.duration_seconds
    );
    if run.bash.calls > 0 {
        let failures: Vec<Value> = run
            .bash
            .failures
            .iter()
            .take(40)
            .map(|failure| {
                json!({
                    "exit_code": failure.exit_code,
                    "status": failure.status,
                    "turn": failure.turn,
                })
            })
            .collect();
        // Keys in alphabetical order: readers compare the line as text.
        let summary = json!({
            "calls": run.bash.calls,
            "failures": failures,
            "last_status": run.bash.last_status,
        });
        footer.push_str(&format!("\n[deepseek-mcp bash] {summary}"));
    }
    if !left_out.is_empty() {
        footer.push_str(&format!(
            "\n[deepseek-mcp left out] {}",
            left_out.join("; ")
        ));
    }
    footer
}
