//! From a call to a run that may start: model, workspace, lease, journal, in
//! an order in which nothing is taken before everything else is in order.

use std::path::Path;

use super::{House, blocked, not_configured};
use crate::agents::{self, AgentError};
use crate::config::{AgentAsk, Mode, Profile, endpoint_for_agent, endpoint_for_deepseek};
use crate::mcp::rooms::{AgentOrder, DeepseekOrder, Prepared, Trouble};
use crate::run::{AgentPrompt, RunSpec, Toolset};
use crate::tools::Capability;
use crate::workspace::Workspace;

impl House {
    pub(super) fn prepare_agent(&self, order: &AgentOrder) -> Result<Prepared, Trouble> {
        let config = self.config()?;
        let workspace = self
            .open(&self.flags.cwd.join(&order.workdir))
            .map_err(|error| Trouble::Invalid(error.to_string()))?;
        let agents_dir = config.agents_dir().value;
        let agent = agents::find(&order.agent_name, workspace.root(), &agents_dir)
            .map_err(|error| no_agent(error, &agents_dir))?;
        let ask = AgentAsk {
            agent: Some(&agent.name),
            model: Some(&order.model),
            max_turns: Some(order.max_turns),
            max_tokens: order.max_tokens,
            ..AgentAsk::default()
        };
        let target = endpoint_for_agent(&config, &ask).map_err(not_configured)?;
        let capability = capability_of(agent.tools.as_deref());
        self.check_program(&workspace, capability)?;
        let lease = self.lease(&workspace, capability)?;
        let mut notices = target.notes;
        notices.extend(agent.notes);
        let pending = self.unacknowledged(&workspace)?;
        if !pending.is_empty() {
            notices.push(pending_notice(&pending));
        }
        Ok(Prepared {
            spec: RunSpec {
                task: order.task.clone(),
                context: String::new(),
                capability,
                workspace: workspace.root().to_owned(),
                endpoint: target.endpoint,
                settings: target.settings,
                agent: Some(AgentPrompt {
                    name: agent.name,
                    body: agent.body,
                    tools: agent.tools,
                }),
                toolset: Toolset::Agents,
                state_dir: self.state_dir()?.to_owned(),
                mode_tag: Some("MODE:LOCAL".to_owned()),
            },
            agent_source: Some(agent.source.name().to_owned()),
            notices,
            held: Box::new(lease),
        })
    }

    pub(super) fn prepare_deepseek(&self, order: &DeepseekOrder) -> Result<Prepared, Trouble> {
        let config = self.config()?;
        if config.deepseek_mode().map_err(not_configured)? == Mode::Off {
            return Err(Trouble::ModeOff);
        }
        let profile = match order.profile.as_str() {
            "pro" => Profile::Pro,
            _ => Profile::Flash,
        };
        let target = endpoint_for_deepseek(&config, profile).map_err(not_configured)?;
        let workspace = self.deepseek_workspace(&config)?;
        self.check_program(&workspace, order.capability)?;
        let lease = self.lease(&workspace, order.capability)?;
        // Under the lease: no run can add to them any more.
        let pending = self.unacknowledged(&workspace)?;
        let mut notices = target.notes;
        if !pending.is_empty() {
            let notice = pending_notice(&pending);
            if !self.reports_only() {
                return Err(Trouble::Blocked(notice));
            }
            notices.push(notice);
        }
        Ok(Prepared {
            spec: RunSpec {
                task: order.task.clone(),
                context: order.context.clone(),
                capability: order.capability,
                workspace: workspace.root().to_owned(),
                endpoint: target.endpoint,
                settings: target.settings,
                agent: None,
                toolset: Toolset::Deepseek,
                state_dir: self.state_dir()?.to_owned(),
                mode_tag: None,
            },
            agent_source: None,
            notices,
            held: Box::new(lease),
        })
    }

    /// A run that could change the program that jails it is no run in a jail.
    pub(super) fn check_program(
        &self,
        workspace: &Workspace,
        capability: Capability,
    ) -> Result<(), Trouble> {
        if capability == Capability::Readonly {
            return Ok(());
        }
        let program = std::env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(|cause| Trouble::Other(format!("this program cannot be found: {cause}")))?;
        if program.starts_with(workspace.root()) {
            return Err(Trouble::NotConfigured(format!(
                "the running delegate ({}) lies in the workspace, where a run could change it; install it outside, or choose another workspace",
                program.display()
            )));
        }
        Ok(())
    }

    /// IDs of changes that nobody acknowledged.
    fn unacknowledged(&self, workspace: &Workspace) -> Result<Vec<String>, Trouble> {
        self.journal()?
            .pending_ids(workspace.id())
            .map_err(|error| blocked(&error))
    }

    fn reports_only(&self) -> bool {
        self.flags
            .env
            .get("DELEGATE_RECOVERY")
            .is_some_and(|word| word == "report")
    }
}

/// An agent that may only look gets a policy that only lets it look.
fn capability_of(tools: Option<&[String]>) -> Capability {
    let looks = |name: &String| ["Read", "Glob", "Grep"].contains(&name.as_str());
    match tools {
        Some(tools) if tools.iter().all(looks) => Capability::Readonly,
        _ => Capability::Coding,
    }
}

fn no_agent(error: AgentError, agents_dir: &Path) -> Trouble {
    match &error {
        AgentError::NotFound { available, .. } => Trouble::NoAgent {
            text: error.to_string(),
            available_hint: if available.is_empty() {
                format!("there is no agent in {}", agents_dir.display())
            } else {
                format!("available: {}", available.join(", "))
            },
        },
        _ => Trouble::Invalid(error.to_string()),
    }
}

fn pending_notice(ids: &[String]) -> String {
    format!(
        "changes of earlier runs in this workspace are not acknowledged: {}; \
         get_deepseek_recovery lists them, acknowledge_deepseek_mutations settles them once they are checked",
        ids.join(", ")
    )
}
