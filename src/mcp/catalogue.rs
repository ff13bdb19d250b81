//! The tools that the server offers, as data: names, words, parameters,
//! hints, results. Names and parameters are those of the two systems that
//! delegate replaces; `docs/` and the specifications say what they mean.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value};

use super::params::{self, Kind, Param};
use super::results::{self, AckResult, AgentResult, DeepseekResult, PingResult, RecoveryResult};
use super::rooms::{AgentList, BackendStatus};

/// Families of tools, as `--toolsets` and `DELEGATE_TOOLSETS` name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Delegation to agent files.
    Agents,
    /// Delegation by the `deepseek` interface.
    Deepseek,
    /// Codex jobs.
    Codex,
    /// Gemini jobs.
    Gemini,
    /// dsh jobs.
    Dsh,
    /// Health of the model server.
    Status,
}

impl Set {
    const ALL: [(Set, &'static str); 6] = [
        (Set::Agents, "agents"),
        (Set::Deepseek, "deepseek"),
        (Set::Codex, "codex"),
        (Set::Gemini, "gemini"),
        (Set::Dsh, "dsh"),
        (Set::Status, "status"),
    ];
}

/// Which families are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolsets(Vec<Set>);

impl Default for Toolsets {
    fn default() -> Self {
        Toolsets(Set::ALL.iter().map(|(set, _)| *set).collect())
    }
}

impl Toolsets {
    /// Reads a comma list; an empty one means all.
    pub fn parse(text: &str) -> Result<Toolsets, String> {
        let mut sets = Vec::new();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            match Set::ALL.iter().find(|(_, name)| *name == word) {
                Some((set, _)) if sets.contains(set) => {}
                Some((set, _)) => sets.push(*set),
                None => {
                    return Err(format!(
                        "there is no tool set `{}`; there are {}",
                        word.escape_debug(),
                        Set::ALL.map(|(_, name)| name).join(", ")
                    ));
                }
            }
        }
        if sets.is_empty() {
            return Ok(Toolsets::default());
        }
        Ok(Toolsets(sets))
    }

    /// Whether a family is shown.
    pub fn has(&self, set: Set) -> bool {
        self.0.contains(&set)
    }
}

/// Which handler a tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Ping,
    Agent,
    Agents,
    Status,
    Coding,
    Readonly,
    Recovery,
    Acknowledge,
}

/// Hints of the protocol: read-only, destructive, idempotent, open world.
type Hints = [bool; 4];

/// One tool.
pub(super) struct Entry {
    pub act: Act,
    pub set: Set,
    pub name: &'static str,
    title: &'static str,
    about: &'static str,
    pub params: &'static [Param],
    hints: Hints,
    output: fn() -> Map<String, Value>,
}

const fn required(name: &'static str, about: &'static str) -> Param {
    Param {
        name,
        about,
        kind: Kind::Text { default: None },
    }
}

const fn text(name: &'static str, default: &'static str, about: &'static str) -> Param {
    Param {
        name,
        about,
        kind: Kind::Text {
            default: Some(default),
        },
    }
}

const DEEPSEEK_PARAMS: &[Param] = &[
    required(
        "task",
        "The whole job: what to do, in which files, what must hold in the end. The other model sees nothing of this conversation.",
    ),
    text(
        "context",
        "",
        "Facts that it needs and cannot find in the workspace: decisions, constraints, excerpts.",
    ),
    Param {
        name: "model",
        about: "Which configured model: flash for most work, pro for hard problems.",
        kind: Kind::Choice {
            values: &["flash", "pro"],
            default: "flash",
        },
    },
];

/// Every tool, in the order of the list.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        act: Act::Acknowledge,
        set: Set::Deepseek,
        name: "acknowledge_deepseek_mutations",
        title: "Acknowledge changes",
        about: "Says that you have checked these journaled file changes. Removes them from the pending list and never touches a file. Call get_deepseek_recovery first and look at each file.",
        params: &[Param {
            name: "transaction_ids",
            about: "IDs from get_deepseek_recovery, 32 hex digits each. Some or all.",
            kind: Kind::TextList,
        }],
        hints: [false, true, true, false],
        output: results::schema_of::<AckResult>,
    },
    Entry {
        act: Act::Coding,
        set: Set::Deepseek,
        name: "delegate_to_deepseek",
        title: "Delegate coding work",
        about: "Hands a whole job to another model, which works on it in this workspace with Read, Write, Edit, Bash, Glob, Grep and NotebookEdit, every call in a kernel-enforced jail: it cannot write outside the workspace, read your keys or use the network. Waits for the end. Good for well-defined work over many files; verify the result yourself. Files that it changed are journaled and must be acknowledged before the next run.",
        params: DEEPSEEK_PARAMS,
        hints: [false, true, false, true],
        output: results::schema_of::<DeepseekResult>,
    },
    Entry {
        act: Act::Readonly,
        set: Set::Deepseek,
        name: "delegate_to_deepseek_readonly",
        title: "Delegate reading",
        about: "As delegate_to_deepseek, but the other model has Read, Glob and Grep only, and the kernel lets it write nothing. For questions about code, reviews and searches that run no command.",
        params: DEEPSEEK_PARAMS,
        hints: [true, false, false, true],
        output: results::schema_of::<DeepseekResult>,
    },
    Entry {
        act: Act::Agent,
        set: Set::Agents,
        name: "delegate_to_local_agent",
        title: "Delegate to an agent",
        about: "Runs an agent (a Markdown file from .claude/agents, .claude/skills or the global folder) with another model in a folder, every tool call in a kernel-enforced jail. Waits for the end. The agent sees only its own file and the task.",
        params: &[
            required("agent_name", "Name of the agent, without .md."),
            required(
                "task",
                "The whole job; the agent sees nothing of this conversation.",
            ),
            text("workdir", ".", "Folder to work in; must exist."),
            Param {
                name: "max_turns",
                about: "Turn limit; 0 takes the configured one.",
                kind: Kind::Int { default: Some(0) },
            },
            text("model", "", "Model; empty takes the configured one."),
            Param {
                name: "max_tokens",
                about: "Bound of one answer in tokens; null takes the model's.",
                kind: Kind::Int { default: None },
            },
        ],
        hints: [false, true, false, true],
        output: results::schema_of::<AgentResult>,
    },
    Entry {
        act: Act::Recovery,
        set: Set::Deepseek,
        name: "get_deepseek_recovery",
        title: "List unacknowledged changes",
        about: "Lists the journaled file changes in this workspace that nobody has acknowledged, each checked against the disk: committed (the file is as it was written), superseded (a later change of the list wrote it again) or uncertain (look at it). Needs no key and works with delegation switched off.",
        params: &[],
        hints: [false, false, true, false],
        output: results::schema_of::<RecoveryResult>,
    },
    Entry {
        act: Act::Agents,
        set: Set::Agents,
        name: "list_local_agents",
        title: "List agents",
        about: "Lists the agents of the global folder with what they are for. A project can have more, in .claude/agents.",
        params: &[],
        hints: [true, false, true, false],
        output: results::schema_of::<AgentList>,
    },
    Entry {
        act: Act::Status,
        set: Set::Status,
        name: "local_backend_status",
        title: "Check the model server",
        about: "Asks the configured model server whether it is alive and which models it has. Takes at most 10 seconds.",
        params: &[],
        hints: [true, false, true, true],
        output: results::schema_of::<BackendStatus>,
    },
    Entry {
        act: Act::Ping,
        set: Set::Deepseek,
        name: "ping",
        title: "Check the server",
        about: "Says that the server is alive, with its version, mode, workspace and model, or NOT_CONFIGURED and why.",
        params: &[],
        hints: [true, false, true, false],
        output: results::schema_of::<PingResult>,
    },
];

impl Entry {
    fn tool(&self) -> Tool {
        let [read_only, destructive, idempotent, open_world] = self.hints;
        Tool::new(self.name, self.about, Arc::new(params::schema(self.params)))
            .with_title(self.title)
            .with_raw_output_schema(Arc::new((self.output)()))
            .with_annotations(
                ToolAnnotations::new()
                    .read_only(read_only)
                    .destructive(destructive)
                    .idempotent(idempotent)
                    .open_world(open_world),
            )
    }
}

/// The tools of the shown families.
pub(super) fn tools(sets: &Toolsets) -> Vec<Tool> {
    ENTRIES
        .iter()
        .filter(|entry| sets.has(entry.set))
        .map(Entry::tool)
        .collect()
}

/// A tool by name, if it is shown.
pub(super) fn find(sets: &Toolsets, name: &str) -> Option<&'static Entry> {
    ENTRIES
        .iter()
        .find(|entry| entry.name == name && sets.has(entry.set))
}

/// The server's `instructions`. Clients cut them, so the first 512 characters
/// stand alone.
pub(super) fn instructions(sets: &Toolsets) -> String {
    let (agents, deepseek) = (sets.has(Set::Agents), sets.has(Set::Deepseek));
    if !agents && !deepseek {
        return "Health checks of the delegate server. Delegation is switched off here.".to_owned();
    }
    let mut text = String::from(
        "Hands whole jobs to another model that works in a kernel-enforced jail. Decide before you read the sources yourself. ",
    );
    if deepseek {
        text.push_str(
            "delegate_to_deepseek edits and runs commands; delegate_to_deepseek_readonly reads only. ",
        );
    }
    if agents {
        text.push_str("delegate_to_local_agent runs a named agent. ");
    }
    text.push_str(
        "The other model sees only what you pass: give paths, constraints, and how to check. Verify its result.",
    );
    if deepseek {
        text.push_str(
            " After changes: get_deepseek_recovery, look, acknowledge_deepseek_mutations.",
        );
    }
    text.push_str(
        "\n\nWhat to hand over: well-defined work over several files, mechanical changes, tests, reviews, searches. \
         Keep: architecture, unclear causes, tiny edits, decisions on security, anything that needs this conversation.\n\
         The other model does not see this conversation, AGENTS.md or CLAUDE.md, has no network in its commands and \
         cannot ask back. Put facts that it cannot find in the workspace into the call. What it may do is chosen by the \
         tool that you call and cannot be widened by the task.\n\
         Results say what was changed (`mutations`), refused (`refusals`) and enforced (`enforcement`). \
         An answer is a claim: run the tests and read the diff.\n",
    );
    if deepseek {
        text.push_str(
            "Every file that a run changed is journaled. Until the changes are acknowledged, new DeepSeek runs in that \
             workspace are refused: call get_deepseek_recovery, check each file, then acknowledge_deepseek_mutations. \
             Do not repeat a failed run before you have looked at what it changed.\n",
        );
    }
    text
}

#[cfg(test)]
mod tests;
