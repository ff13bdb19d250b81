//! What can be asked without a run: how things stand.

use std::time::Duration;

use super::{House, not_configured};
use crate::agents;
use crate::config::{AgentAsk, Profile, endpoint_for_agent, endpoint_for_deepseek};
use crate::mcp::rooms::{AgentEntry, AgentList, BackendStatus, Standing, Trouble};
use crate::provider::{self, Endpoint};
use crate::tools::Capability;

/// Longest that `local_backend_status` waits.
const STATUS_WAIT: Duration = Duration::from_secs(10);

impl House {
    pub(super) fn deepseek_standing(&self) -> Standing {
        let config = match self.config() {
            Ok(config) => config,
            Err(trouble) => {
                return Standing {
                    mode: self.mode_word().to_owned(),
                    setup: Err(trouble.to_string()),
                };
            }
        };
        let setup = config
            .deepseek_mode()
            .map_err(not_configured)
            .and_then(|_| endpoint_for_deepseek(&config, Profile::Flash).map_err(not_configured))
            .and_then(|target| {
                let workspace = self.deepseek_workspace(&config)?;
                self.check_program(&workspace, Capability::Coding)?;
                Ok((workspace.root().to_owned(), target.endpoint.model))
            });
        Standing {
            mode: self.mode_word().to_owned(),
            setup: setup.map_err(|trouble| trouble.to_string()),
        }
    }

    pub(super) fn global_agents(&self) -> AgentList {
        let folder = match self.config() {
            Ok(config) => config.agents_dir().value,
            Err(trouble) => {
                return AgentList {
                    error: Some(trouble.to_string()),
                    ..AgentList::default()
                };
            }
        };
        let listing = agents::list(&folder);
        AgentList {
            count: listing.agents.len(),
            agents_dir: folder.display().to_string(),
            agents: listing
                .agents
                .into_iter()
                .map(|agent| AgentEntry {
                    name: agent.name,
                    description: agent.description,
                    declared_model: agent.declared_model,
                    path: agent.path.display().to_string(),
                })
                .collect(),
            error: listing.error,
        }
    }

    pub(super) async fn backend_status(&self) -> BackendStatus {
        let (mut status, endpoint) = match self.configured() {
            Ok(configured) => configured,
            Err(trouble) => {
                return BackendStatus {
                    error: Some(trouble.to_string()),
                    ..BackendStatus::default()
                };
            }
        };
        let (alive, models) = tokio::join!(
            provider::liveness(&endpoint.base_url, endpoint.key.as_ref(), STATUS_WAIT),
            tokio::time::timeout(
                STATUS_WAIT,
                provider::list_models(&endpoint.base_url, endpoint.key.as_ref())
            ),
        );
        match alive {
            Ok(alive) => {
                status.liveness = Some(alive.body);
                status.liveness_status = Some(alive.status);
                status.liveness_ms = u64::try_from(alive.took.as_millis()).ok();
            }
            Err(why) => status.error = Some(why),
        }
        match models {
            Ok(Ok(models)) => {
                status.available_models = Some(models.into_iter().take(20).collect());
            }
            Ok(Err(error)) => {
                status.models_error = Some(match error.status {
                    Some(code) => format!("HTTP {code}"),
                    None => error.text,
                });
            }
            Err(_) => status.models_error = Some(format!("no answer within {STATUS_WAIT:?}")),
        }
        status
    }

    /// What `local_backend_status` knows without asking anybody.
    fn configured(&self) -> Result<(BackendStatus, Endpoint), Trouble> {
        let config = self.config()?;
        let target = endpoint_for_agent(&config, &AgentAsk::default()).map_err(not_configured)?;
        let status = BackendStatus {
            configured_url: Some(target.endpoint.base_url.to_string()),
            default_model: Some(target.endpoint.model.clone()),
            agents_dir: config.agents_dir().value.display().to_string(),
            ..BackendStatus::default()
        };
        Ok((status, target.endpoint))
    }

    fn mode_word(&self) -> &'static str {
        match self.flags.env.get("DEEPSEEK_MODE").map(String::as_str) {
            None | Some("auto") => "auto",
            Some("off") => "off",
            Some(_) => "invalid",
        }
    }
}
