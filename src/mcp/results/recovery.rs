//! Results of `ping`, `get_deepseek_recovery` and `acknowledge_deepseek_mutations`.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Serialize;

use super::{as_json, both, clip, fit};
use crate::mcp::rooms::{Acknowledged, PendingChange, Standing, Trouble};

/// Result of `ping`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(in crate::mcp) struct PingResult {
    /// Always true: the server answered.
    ok: bool,
    /// The line of the text block.
    message: String,
    server: String,
    version: String,
    /// `auto`, `off` or `invalid`.
    mode: String,
    /// Whether DeepSeek delegation could start.
    configured: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The home folder is shortened to `~`.
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    /// The active model.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Tools of a coding run.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
}

const AGENT_TOOLS: [&str; 7] = [
    "Read",
    "Write",
    "Edit",
    "Bash",
    "Glob",
    "Grep",
    "NotebookEdit",
];

/// The line of `ping`.
pub(in crate::mcp) fn ping(standing: &Standing, home: Option<&std::path::Path>) -> CallToolResult {
    let version = env!("CARGO_PKG_VERSION");
    let head = format!("pong deepseek-mcp {version} mode={}", standing.mode);
    let mut object = PingResult {
        ok: true,
        message: String::new(),
        server: "deepseek-mcp".to_owned(),
        version: version.to_owned(),
        mode: standing.mode.clone(),
        configured: false,
        reason: None,
        workspace: None,
        model: None,
        tools: None,
    };
    let text = match &standing.setup {
        Err(reason) => {
            object.reason = Some(reason.clone());
            format!("{head} NOT_CONFIGURED ({reason})")
        }
        Ok((workspace, model)) => {
            let workspace = shorten(workspace, home);
            let text = format!(
                "{head} workspace={workspace} model={model} tools={}",
                AGENT_TOOLS.join(",")
            );
            object.configured = true;
            object.workspace = Some(workspace);
            object.model = Some(model.clone());
            object.tools = Some(AGENT_TOOLS.map(str::to_owned).to_vec());
            text
        }
    };
    object.message.clone_from(&text);
    both(text, serde_json::to_value(&object).unwrap_or_default())
}

/// `~` for the home folder, and the middle left out beyond 60 characters.
fn shorten(path: &std::path::Path, home: Option<&std::path::Path>) -> String {
    let text = match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= 60 {
        return text;
    }
    let head: String = characters[..28].iter().collect();
    let tail: String = characters[characters.len() - 31..].iter().collect();
    format!("{head}…{tail}")
}

/// Result of `get_deepseek_recovery`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(in crate::mcp) struct RecoveryResult {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    /// Changes not yet acknowledged, in the order in which they were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<Vec<PendingChange>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    /// What did not fit into this result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// The list of pending changes.
pub(in crate::mcp) fn recovery(pending: &[PendingChange]) -> CallToolResult {
    fit(|room| {
        // Every ID has to be there: without it nothing can be acknowledged.
        let long_warnings = room.text < 16_000;
        as_json(&RecoveryResult {
            ok: true,
            pending: Some(
                pending
                    .iter()
                    .map(|change| {
                        let mut change = change.clone();
                        if long_warnings {
                            change.warnings = change
                                .warnings
                                .iter()
                                .map(|warning| {
                                    clip(warning, 100).unwrap_or_else(|| warning.clone())
                                })
                                .take(1)
                                .collect();
                        }
                        change
                    })
                    .collect(),
            ),
            count: Some(pending.len()),
            left_out: if long_warnings {
                vec!["warnings beyond the first 100 bytes".to_owned()]
            } else {
                Vec::new()
            },
            ..RecoveryResult::default()
        })
    })
}

/// Result of `acknowledge_deepseek_mutations`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(in crate::mcp) struct AckResult {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    /// IDs that are no longer pending, sorted.
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged: Option<Vec<String>>,
    /// IDs still pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<Vec<String>>,
    /// IDs that are not pending in this workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<Vec<String>>,
}

/// What an acknowledgement did.
pub(in crate::mcp) fn acknowledged(done: Acknowledged) -> CallToolResult {
    as_json(&AckResult {
        ok: true,
        acknowledged: Some(done.acknowledged),
        pending: Some(done.pending),
        unknown: Some(done.unknown),
        ..AckResult::default()
    })
}

/// `{"ok": false, …}` of the two recovery tools.
pub(in crate::mcp) fn recovery_trouble(trouble: &Trouble) -> CallToolResult {
    let error = match trouble {
        Trouble::Busy(why) => format!("DeepSeek execution busy: {why}"),
        Trouble::Blocked(why) => format!("DeepSeek execution blocked: {why}"),
        other => other.to_string(),
    };
    as_json(&RecoveryResult {
        error: Some(error),
        error_code: Some(trouble.code().to_owned()),
        ..RecoveryResult::default()
    })
}
