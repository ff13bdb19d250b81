//! From the layers to the model of one run: URL, wire, key, settings.

use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::credential::{self, Reasoning};
use super::env;
use super::error::ConfigError;
use super::keys::{self, KEYS};
use super::layers::{Config, Origin, Sourced};
use super::target::{Endpoint, Wire};
use super::url::{for_wire, is_loopback, parse_base};
use super::{RunSettings, gateway};

/// The model profile of the `deepseek` tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// The quick one.
    Flash,
    /// The strong one.
    Pro,
}

/// What one call of the `agents` tools says for itself.
#[derive(Clone, Debug, Default)]
pub struct AgentAsk<'a> {
    /// Name of the agent, for the re-route of coding agents.
    pub agent: Option<&'a str>,
    /// Model alias.
    pub model: Option<&'a str>,
    /// Turns; zero and less mean "as configured", more than the cap the cap.
    pub max_turns: Option<i64>,
    /// Output bound; zero and less mean "as configured".
    pub max_tokens: Option<i64>,
    /// A URL of its own; no other key than [`AgentAsk::key`] goes there.
    pub base_url: Option<&'a str>,
    /// Wire of that URL, where the model's name does not tell.
    pub wire: Option<Wire>,
    /// The key for that URL.
    pub key: Option<SecretString>,
}

/// The model of one run and how to run it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where and as whom.
    pub endpoint: Endpoint,
    /// How.
    pub settings: RunSettings,
    /// Whether the model counts as local.
    pub local: bool,
    /// Where the URL came from.
    pub url_origin: Origin,
    /// Where the model's name came from.
    pub model_origin: Origin,
    /// Things a person should know, one sentence each.
    pub notes: Vec<String>,
}

/// Agents that `DELEGATE_LOCAL_CODING_MODEL` re-routes.
const CODING_AGENTS: [&str; 7] = [
    "coder",
    "webdev",
    "backend",
    "devops",
    "frontend",
    "fullstack",
    "security",
];

/// Output bound of a model that no table knows.
const UNKNOWN_OUTPUT: u32 = 65_536;

/// The target of one call of the `agents` tools, or of `delegate run`.
pub fn endpoint_for_agent(config: &Config, ask: &AgentAsk<'_>) -> Result<Target, ConfigError> {
    let mut notes = Vec::new();
    let model = agent_model(config, ask);
    let facts = config.models.facts(&model.value);
    let (text, url_origin) = match ask.base_url {
        Some(url) => (url.to_owned(), Origin::Call),
        None => match gateway::url(&config.env)? {
            // Only a flag beats the gateway switch.
            Some(url) if !matches!(config.default_url().origin, Origin::Flag(_)) => {
                (url, Origin::Env("DELEGATE_BIFROST_URL".to_owned()))
            }
            _ => {
                let url = config.default_url();
                (url.value, url.origin)
            }
        },
    };
    let given = parse_base(&text, &url_origin.to_string())?;
    let wire = ask
        .wire
        .or_else(|| config.text("wire").map(|wire| wire_of(&wire.value)))
        .or(facts.wire)
        .unwrap_or_else(|| guess_wire(&given, &url_origin));
    let base_url = for_wire(given, wire);
    let local = facts.local.unwrap_or_else(|| is_loopback(&base_url));
    let settings = agent_settings(config, ask, &model.value, local, &mut notes);
    let key = agent_key(config, ask, &base_url, &url_origin, &model.value)?;
    if key.is_some() && base_url.scheme() == "http" && !is_loopback(&base_url) {
        notes.push(format!(
            "the key travels in the clear to {}",
            base_url.host_str().unwrap_or_default()
        ));
    }
    Ok(Target {
        endpoint: Endpoint {
            base_url,
            wire,
            model: model.value,
            key,
            extra_body: serde_json::Map::new(),
        },
        settings,
        local,
        url_origin,
        model_origin: model.origin,
        notes,
    })
}

fn wire_of(word: &str) -> Wire {
    if word == "openai" {
        Wire::Openai
    } else {
        Wire::Anthropic
    }
}

/// The wire of a model that no table knows. The variable of the old system and
/// its default are documented as an Anthropic endpoint; a URL that says so is
/// one; anything else is what nearly every server speaks.
fn guess_wire(url: &Url, origin: &Origin) -> Wire {
    let path = url.path().trim_end_matches('/');
    let says_openai = path.ends_with("/chat/completions");
    let says_anthropic = path.ends_with("/messages")
        || path.contains("/anthropic")
        || url
            .host_str()
            .is_some_and(|host| host == "api.anthropic.com");
    let old = matches!(origin, Origin::Env(name)
        if name == "DELEGATE_LOCAL_URL" || name == "DELEGATE_BIFROST_URL");
    if says_anthropic || (old && !says_openai) {
        Wire::Anthropic
    } else {
        Wire::Openai
    }
}

fn agent_model(config: &Config, ask: &AgentAsk<'_>) -> Sourced<String> {
    let default = config.default_model();
    let asked = ask.model.map(str::trim).filter(|model| !model.is_empty());
    if let Some(model) = asked.filter(|model| *model != default.value) {
        return Sourced::new(model.to_owned(), Origin::Call);
    }
    let coding = ask.agent.is_some_and(|agent| {
        CODING_AGENTS
            .iter()
            .any(|name| name.eq_ignore_ascii_case(agent))
    });
    if coding {
        if let Some(model) = env::filled(&config.env, "DELEGATE_LOCAL_CODING_MODEL") {
            let origin = Origin::Env("DELEGATE_LOCAL_CODING_MODEL".to_owned());
            return Sourced::new(model.to_owned(), origin);
        }
        if let Some(model) = &config.own.agents.coding_model {
            return Sourced::new(model.clone(), Origin::File(config.own_path.clone()));
        }
    }
    match asked {
        Some(model) => Sourced::new(model.to_owned(), Origin::Call),
        None => default,
    }
}

/// The key of a run. A key travels only to where it was meant for: the one of
/// the call and of `key_env` to the URL at hand, `DELEGATE_LOCAL_KEY` to the
/// origin that environment or file configure, never to a URL of a call.
fn agent_key(
    config: &Config,
    ask: &AgentAsk<'_>,
    url: &Url,
    url_origin: &Origin,
    model: &str,
) -> Result<Option<SecretString>, ConfigError> {
    if let Some(key) = &ask.key {
        return Ok(Some(key.clone()));
    }
    if *url_origin == Origin::Call {
        return Ok(None);
    }
    if let Some(name) = config.text("key_env") {
        return named_key(config, &name, url).map(Some);
    }
    if matches!(url_origin, Origin::Env(name) if name == "DELEGATE_BIFROST_URL")
        && let Some(key) = gateway::key(&config.env, model)
    {
        return Ok(Some(key));
    }
    let configured = config.below_flags("base_url").map_or_else(
        || config.models.agents.base_url.clone(),
        |url| url.value.show(),
    );
    let same = Url::parse(&configured).is_ok_and(|meant| meant.origin() == url.origin())
        || matches!(url_origin, Origin::Env(_));
    Ok(same
        .then(|| credential::from_env(&config.env, "DELEGATE_LOCAL_KEY"))
        .flatten())
}

/// The key in the variable that somebody named.
fn named_key(
    config: &Config,
    name: &Sourced<String>,
    url: &Url,
) -> Result<SecretString, ConfigError> {
    credential::from_env(&config.env, &name.value).ok_or_else(|| ConfigError::KeyMissing {
        host: url.host_str().unwrap_or_default().to_owned(),
        remedy: format!(
            "the variable {} ({}) is not set or empty.",
            name.value, name.origin
        ),
    })
}

fn agent_settings(
    config: &Config,
    ask: &AgentAsk<'_>,
    model: &str,
    local: bool,
    notes: &mut Vec<String>,
) -> RunSettings {
    let facts = config.models.facts(model);
    let cloud_bash = env::number(&config.env, "DELEGATE_CLOUD_RUN_BASH_TIMEOUT", 1, 1_800)
        .ok()
        .flatten()
        .unwrap_or(600);
    let mut settings = RunSettings {
        max_turns: if local {
            config.turns.local
        } else {
            config.turns.cloud
        },
        max_run: Duration::from_secs(3_600),
        bash_timeout: Duration::from_secs(if local || config.compat_readme {
            120
        } else {
            cloud_bash
        }),
        max_output_tokens: facts.max_output_tokens.unwrap_or(UNKNOWN_OUTPUT),
        ..RunSettings::default()
    };
    if let Some(window) = facts.context_window {
        settings.context_window = window;
    }
    let mut bounded = facts.max_output_tokens.is_some();
    for key in KEYS {
        if let Some(given) = config.agents(key.name) {
            keys::apply(&mut settings, key.name, &given.value);
            bounded |= key.name == "max_output_tokens";
        }
    }
    if let Some(tokens) = ask
        .max_tokens
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n > 0)
    {
        settings.max_output_tokens = tokens;
        bounded = true;
    }
    if !bounded {
        notes.push(format!(
            "no table knows the output bound of `{model}`; asking for {UNKNOWN_OUTPUT} tokens"
        ));
    }
    if let Some(cap) = facts.output_cap {
        settings.max_output_tokens = settings.max_output_tokens.min(cap);
    }
    if let Some(turns) = ask.max_turns.filter(|turns| *turns > 0) {
        settings.max_turns = u32::try_from(turns).unwrap_or(u32::MAX);
    }
    settings.max_turns = settings.max_turns.min(config.turns.hard);
    settings
}

/// The target of one call of the `deepseek` tools.
pub fn endpoint_for_deepseek(config: &Config, profile: Profile) -> Result<Target, ConfigError> {
    let legacy = config.legacy.as_ref().map_err(Clone::clone)?;
    let file = || Origin::File(config.own_path.clone());
    let old = || Origin::Legacy(config.legacy_path.clone());
    let own = &config.own.deepseek;
    let defaults = &config.models.deepseek;
    let choose = |ours: &Option<String>, theirs: &Option<String>, default: &str| {
        if let Some(value) = ours {
            Sourced::new(value.clone(), file())
        } else if let Some(value) = theirs {
            Sourced::new(value.clone(), old())
        } else {
            Sourced::new(default.to_owned(), Origin::Default)
        }
    };
    let url = config
        .flag("base_url")
        .unwrap_or_else(|| choose(&own.base_url, &legacy.base_url, &defaults.base_url));
    let (model, effort) = match profile {
        Profile::Flash => (
            choose(&own.flash, &legacy.flash, &defaults.flash),
            own.flash_effort.or(legacy.flash_effort),
        ),
        Profile::Pro => (
            choose(&own.pro, &legacy.pro, &defaults.pro),
            own.pro_effort.or(legacy.pro_effort),
        ),
    };
    let model = config.flag("model").unwrap_or(model);
    let wire = config
        .flag("wire")
        .map_or(Wire::Openai, |wire| wire_of(&wire.value));
    let given = parse_base(&url.value, &url.origin.to_string())?;
    // The files say the base exactly: the old system appends to it as it is.
    // A flag is read as everywhere else; and the key in the legacy file is
    // meant for the files' URL, not for one that a flag names.
    let (base_url, file_key) = match url.origin {
        Origin::Flag(_) => (for_wire(given, wire), None),
        _ => (given, legacy.api_key.as_ref()),
    };
    let key = match config.flag("key_env") {
        Some(name) => named_key(config, &name, &base_url)?,
        None => credential::choose(&base_url, &config.env, file_key)?,
    };
    let mut settings = RunSettings {
        max_attempts: 3,
        retry_base: Duration::from_secs(2),
        // Their budgets bound a run; nothing is taken out of its history.
        keep_tool_results: 0,
        ..RunSettings::default()
    };
    for setting in KEYS {
        if let Some(given) = config.deepseek(setting.name, legacy) {
            keys::apply(&mut settings, setting.name, &given.value);
        }
    }
    let mut notes = Vec::new();
    if base_url.scheme() == "http" && !is_loopback(&base_url) {
        notes.push(format!(
            "tasks and file contents travel in the clear to {}",
            base_url.host_str().unwrap_or_default()
        ));
    }
    let local = is_loopback(&base_url);
    Ok(Target {
        endpoint: Endpoint {
            extra_body: effort.unwrap_or(Reasoning::ProviderDefault).body(&base_url),
            base_url,
            wire,
            model: model.value,
            key: Some(key),
        },
        settings,
        local,
        url_origin: url.origin,
        model_origin: model.origin,
        notes,
    })
}

#[cfg(test)]
mod tests;
