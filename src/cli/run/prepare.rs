//! From the command line to a run: configuration, model, workspace, agent,
//! lease. Whatever is wrong is said here, before anything was started.

use std::sync::Arc;
use std::time::Duration;

use super::Args;
use crate::agents::{self, AgentError};
use crate::cli::exit::Exit;
use crate::cli::{host, jail as jail_cli};
use crate::config::{AgentAsk, Config, ConfigError, Origin, Target, endpoint_for_agent};
use crate::journal::Journal;
use crate::provider::{discover, list_models, usual_candidates};
use crate::run::{AgentPrompt, Deps, RunSpec, Toolset};
use crate::tools::Capability;
use crate::workspace::{Busy, Lease, Workspace, WorkspaceError};

/// How long local servers may take to show themselves.
const DISCOVERY: Duration = Duration::from_millis(1_500);

/// A run that may start.
pub(super) struct Prepared {
    pub spec: RunSpec,
    pub deps: Deps,
    /// What a person should know before it starts.
    pub notes: Vec<String>,
    /// Held until the run has ended.
    pub lease: Lease,
}

/// Why there is no run.
#[derive(Debug)]
pub(super) struct Refused {
    pub exit: Exit,
    pub code: String,
    pub text: String,
}

impl Refused {
    fn new(exit: Exit, code: &str, text: impl ToString) -> Self {
        Refused {
            exit,
            code: code.to_owned(),
            text: text.to_string(),
        }
    }

    pub(super) fn cancelled() -> Self {
        Refused::new(Exit::Cancelled, "cancelled", "the run was cancelled")
    }
}

impl From<ConfigError> for Refused {
    fn from(error: ConfigError) -> Self {
        Refused::new(Exit::Usage, error.code(), error)
    }
}

impl From<AgentError> for Refused {
    fn from(error: AgentError) -> Self {
        let mut text = error.to_string();
        if let AgentError::NotFound { available, .. } = &error
            && !available.is_empty()
        {
            text.push_str(&format!(". There are: {}", available.join(", ")));
        }
        Refused::new(Exit::Usage, error.code(), text)
    }
}

impl From<WorkspaceError> for Refused {
    fn from(error: WorkspaceError) -> Self {
        Refused::new(Exit::Usage, error.code(), error)
    }
}

impl From<Busy> for Refused {
    fn from(error: Busy) -> Self {
        Refused::new(Exit::Failed, error.code(), error)
    }
}

/// Makes the run.
pub(super) async fn prepare(args: &Args) -> Result<Prepared, Refused> {
    if args.task.trim().is_empty() {
        return Err(Refused::new(
            Exit::Usage,
            "invalid_input",
            "the task is blank",
        ));
    }
    let home = host::home()?;
    let state_dir = host::state_dir()?;
    let mut sources = host::sources()?;
    sources.flags = flags(args)?;
    let config = Config::load(sources.clone())?;
    let mut notes = Vec::new();
    let workspace = Workspace::open_for(&args.workspace, Some(&home))?;
    let agent = match &args.agent {
        Some(name) => {
            let agents_dir = config.agents_dir().value;
            Some(agents::find(name, workspace.root(), &agents_dir)?)
        }
        None => None,
    };
    let ask = AgentAsk {
        agent: args.agent.as_deref(),
        ..AgentAsk::default()
    };
    let target = choose_model(config, sources, &ask, &mut notes).await?;
    notes.extend(target.notes);
    // An agent that only looks gets the policy that can only look.
    let looks = |tools: &[String]| {
        let looking = ["Read", "Glob", "Grep"];
        tools.iter().all(|tool| looking.contains(&tool.as_str()))
    };
    let restricted = agent.as_ref().and_then(|agent| agent.tools.as_deref());
    let capability = if args.readonly || restricted.is_some_and(looks) {
        Capability::Readonly
    } else {
        Capability::Coding
    };
    let lease = Lease::acquire(
        &home.join(".deepseek-mcp/locks"),
        &workspace,
        capability == Capability::Readonly,
    )?;
    let journal = Journal::open(&state_dir)
        .map_err(|error| Refused::new(Exit::Failed, error.code(), error))?;
    let pending = journal
        .pending_ids(workspace.id())
        .map_err(|error| Refused::new(Exit::Failed, error.code(), error))?;
    if !pending.is_empty() {
        notes.push(format!(
            "{} change(s) of earlier runs in this workspace are not acknowledged",
            pending.len()
        ));
    }
    let launcher = jail_cli::launcher().map_err(|cause| {
        Refused::new(
            Exit::NoJail,
            "jail_no_program",
            format!("this program cannot be found again, so no jail can be started: {cause}"),
        )
    })?;
    if let Some(agent) = &agent {
        notes.extend(agent.notes.iter().cloned());
    }
    Ok(Prepared {
        spec: RunSpec {
            task: args.task.clone(),
            context: String::new(),
            capability,
            workspace: workspace.root().to_owned(),
            endpoint: target.endpoint,
            settings: target.settings,
            mode_tag: agent.as_ref().map(|_| "MODE:LOCAL".to_owned()),
            agent: agent.map(|agent| AgentPrompt {
                name: agent.name,
                body: agent.body,
                tools: agent.tools,
            }),
            toolset: Toolset::Agents,
            state_dir,
        },
        deps: Deps {
            journal: Arc::new(journal),
            launcher,
            host: jail_cli::this_host(),
        },
        notes,
        lease,
    })
}

/// Flags as settings, in the order in which a later one wins.
fn flags(args: &Args) -> Result<Vec<(String, String, String)>, ConfigError> {
    let mut flags = Vec::new();
    for text in &args.set {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| ConfigError::NotKeyValue { text: text.clone() })?;
        flags.push((name.to_owned(), value.to_owned(), "--set".to_owned()));
    }
    let named = [
        ("base_url", args.base_url.clone()),
        ("wire", args.wire.map(|wire| wire.name().to_owned())),
        ("model", args.model.clone()),
        ("key_env", args.key_env.clone()),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            let flag = format!("--{}", name.replace('_', "-"));
            flags.push((name.to_owned(), value, flag));
        }
    }
    Ok(flags)
}

/// The model that was named, or the one that is there.
async fn choose_model(
    config: Config,
    mut sources: crate::config::Sources,
    ask: &AgentAsk<'_>,
    notes: &mut Vec<String>,
) -> Result<Target, Refused> {
    let target = endpoint_for_agent(&config, ask)?;
    let mut found = Vec::new();
    let mut add = |name: &str, value: String| {
        found.push((name.to_owned(), value, "discovery".to_owned()));
    };
    let no_name = target.model_origin == Origin::Default;
    if target.url_origin == Origin::Default {
        let server = discover(&usual_candidates(), DISCOVERY).await;
        let server = server.ok_or_else(|| {
            Refused::new(
                Exit::Usage,
                "no_model_server",
                "no model server: give one by --base-url, or start LM Studio, Ollama, llama.cpp, \
                 vLLM or LiteLLM at its usual port. `delegate try` shows all of it without one.",
            )
        })?;
        notes.push(format!("{} answers at {}", server.kind, server.base_url));
        add("base_url", server.base_url.to_string());
        if no_name && let Some(model) = server.models.into_iter().next() {
            add("model", model);
        }
    } else if no_name {
        let models = list_models(&target.endpoint.base_url, target.endpoint.key.as_ref())
            .await
            .map_err(|error| {
                Refused::new(
                    Exit::Usage,
                    "no_model_name",
                    format!("no model was named and the server lists none ({error}); use --model"),
                )
            })?;
        let model = models.into_iter().next().ok_or_else(|| {
            Refused::new(
                Exit::Usage,
                "no_model_name",
                "no model was named and the server lists none; use --model",
            )
        })?;
        add("model", model);
    } else {
        return Ok(target);
    }
    // Found values stand where nothing was said, and beat nothing that was.
    found.extend(sources.flags);
    sources.flags = found;
    let config = Config::load(sources)?;
    Ok(endpoint_for_agent(&config, ask)?)
}
