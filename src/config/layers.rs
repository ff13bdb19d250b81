//! The layers put on top of each other, and what comes out: a [`Target`] for
//! one run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::env::{self, Given};
use super::error::ConfigError;
use super::files::Sources;
use super::gateway;
use super::keys::{self, Setting};
use super::legacy::{self, Legacy};
use super::models::ModelTable;
use super::own::{self, Own};
use super::url::parse_base;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The call itself (an MCP parameter).
    Call,
    /// A flag, as the person wrote it.
    Flag(String),
    /// A variable.
    Env(String),
    /// `config.toml`.
    File(PathBuf),
    /// The legacy file.
    Legacy(PathBuf),
    /// The table of models.
    Models,
    /// Nothing said otherwise.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Call => f.write_str("the call"),
            Origin::Flag(flag) => f.write_str(flag),
            Origin::Env(name) => write!(f, "${name}"),
            Origin::File(path) | Origin::Legacy(path) => write!(f, "{}", path.display()),
            Origin::Models => f.write_str("table of models"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Its origin.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    pub(super) fn new(value: T, origin: Origin) -> Self {
        Sourced { value, origin }
    }
}

/// Whether the `deepseek` tools delegate at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They do.
    Auto,
    /// `DEEPSEEK_MODE=off`: the host goes on by itself.
    Off,
}

/// Turn limits of the `agents` tools.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnLimits {
    pub local: u32,
    pub cloud: u32,
    pub hard: u32,
}

/// All layers, checked.
#[derive(Clone)]
pub struct Config {
    flags: Given,
    ours: Given,
    old: Given,
    pub(super) own: Own,
    pub(super) own_path: PathBuf,
    pub(super) legacy: Result<Legacy, ConfigError>,
    pub(super) legacy_path: PathBuf,
    pub(super) models: ModelTable,
    pub(super) env: BTreeMap<String, String>,
    home: PathBuf,
    pub(super) turns: TurnLimits,
    pub(super) compat_readme: bool,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold keys.
        f.debug_struct("Config")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Checks every layer. A defect of the legacy file is kept for the first
    /// call that needs it; any other is an error now.
    pub fn load(sources: Sources) -> Result<Config, ConfigError> {
        let mut flags = Given::new();
        for (name, value, place) in &sources.flags {
            let key = keys::find(name, place)?;
            flags.insert(key.name, (key.parse(value, place)?, place.clone()));
        }
        let (own, own_path) = match &sources.own {
            Some(file) => (own::parse(&file.text, &file.path)?, file.path.clone()),
            None => (Own::default(), PathBuf::new()),
        };
        let legacy_path = sources.home.join(".deepseek-mcp/config.json");
        let legacy = sources.legacy.and_then(|file| match file {
            Some(file) => legacy::parse(&file.text, &file.path),
            None => Ok(Legacy::default()),
        });
        let env = sources.env;
        gateway::check(&env)?;
        let compat_readme = env::filled(&env, "DELEGATE_COMPAT") == Some("readme");
        let turns = |name, default: u32| -> Result<u32, ConfigError> {
            let given = env::number(&env, name, 1, 150)?;
            Ok(given.and_then(|n| u32::try_from(n).ok()).unwrap_or(default))
        };
        let turns = TurnLimits {
            local: turns("DELEGATE_LOCAL_MAX_TURNS", 25)?,
            cloud: turns(
                "DELEGATE_CLOUD_MAX_TURNS",
                if compat_readme { 40 } else { 60 },
            )?,
            hard: turns(
                "DELEGATE_HARD_MAX_TURNS",
                if compat_readme { 40 } else { 150 },
            )?,
        };
        let config = Config {
            flags,
            ours: env::ours(&env)?,
            old: env::old(&env)?,
            models: ModelTable::new(own.models.clone())?,
            own,
            own_path,
            legacy,
            legacy_path,
            env,
            home: sources.home,
            turns,
            compat_readme,
        };
        // A URL that cannot be used is an error of the layer that names it.
        if let Some(url) = config.agents("base_url") {
            parse_base(&url.value.show(), &url.origin.to_string())?;
        }
        Ok(config)
    }

    fn from_given(given: &Given, name: &str, flag: bool) -> Option<Sourced<Setting>> {
        given.get(name).map(|(value, place)| {
            let origin = if flag {
                Origin::Flag(place.clone())
            } else {
                Origin::Env(place.clone())
            };
            Sourced::new(value.clone(), origin)
        })
    }

    fn in_own(&self, name: &str) -> Option<Sourced<Setting>> {
        let (_, value) = self.own.settings.iter().find(|(key, _)| *key == name)?;
        Some(Sourced::new(
            value.clone(),
            Origin::File(self.own_path.clone()),
        ))
    }

    /// The text of a flag: what a person says to one server holds for both
    /// families of its tools.
    pub(super) fn flag(&self, name: &str) -> Option<Sourced<String>> {
        Self::from_given(&self.flags, name, true).map(|given| Sourced {
            value: given.value.show(),
            origin: given.origin,
        })
    }

    /// A setting as given for the `agents` tools, by whatever layer.
    pub(super) fn agents(&self, name: &str) -> Option<Sourced<Setting>> {
        Self::from_given(&self.flags, name, true).or_else(|| self.below_flags(name))
    }

    pub(super) fn below_flags(&self, name: &str) -> Option<Sourced<Setting>> {
        Self::from_given(&self.ours, name, false)
            .or_else(|| Self::from_given(&self.old, name, false))
            .or_else(|| self.in_own(name))
    }

    /// A setting as given for the `deepseek` tools, the legacy file included.
    pub(super) fn deepseek(&self, name: &str, legacy: &Legacy) -> Option<Sourced<Setting>> {
        Self::from_given(&self.flags, name, true)
            .or_else(|| Self::from_given(&self.ours, name, false))
            .or_else(|| self.in_own(name))
            .or_else(|| {
                let number = match name {
                    "max_turns" => legacy.max_turns,
                    "max_run_seconds" => legacy.max_run_seconds,
                    "max_output_tokens" => legacy.max_output_tokens,
                    _ => None,
                }?;
                let origin = Origin::Legacy(self.legacy_path.clone());
                Some(Sourced::new(Setting::Int(number), origin))
            })
    }

    /// The text of a setting for the `agents` tools.
    pub(super) fn text(&self, name: &str) -> Option<Sourced<String>> {
        self.agents(name).map(|given| Sourced {
            value: given.value.show(),
            origin: given.origin,
        })
    }

    /// The most turns that any call of the `agents` tools gets.
    pub fn hard_max_turns(&self) -> u32 {
        self.turns.hard
    }

    /// `DEEPSEEK_MODE`.
    pub fn deepseek_mode(&self) -> Result<Mode, ConfigError> {
        match self.env.get("DEEPSEEK_MODE").map(String::as_str) {
            None | Some("auto") => Ok(Mode::Auto),
            Some("off") => Ok(Mode::Off),
            Some(other) => Err(ConfigError::BadMode {
                got: other.escape_debug().to_string(),
            }),
        }
    }

    /// The root that the `deepseek` tools work in: variable, file, `cwd`.
    pub fn deepseek_workspace(&self, cwd: &Path) -> Result<Sourced<PathBuf>, ConfigError> {
        let legacy = self.legacy.as_ref().map_err(Clone::clone)?;
        let (text, origin) = if let Some(text) = self.env.get("DEEPSEEK_WORKSPACE") {
            (text, Origin::Env("DEEPSEEK_WORKSPACE".to_owned()))
        } else if let Some(text) = &self.own.deepseek.workspace {
            (text, Origin::File(self.own_path.clone()))
        } else if let Some(text) = &legacy.workspace {
            (text, Origin::Legacy(self.legacy_path.clone()))
        } else {
            return Ok(Sourced::new(cwd.to_owned(), Origin::Default));
        };
        if text.trim().is_empty() || text.contains('\0') {
            return Err(ConfigError::BadValue {
                name: "workspace".to_owned(),
                place: origin.to_string(),
                wanted: "a path, not blank".to_owned(),
                got: format!("`{}`", text.escape_debug()),
            });
        }
        Ok(Sourced::new(self.expand(text, cwd), origin))
    }

    /// The folder of the third tier of agent definitions.
    pub fn agents_dir(&self) -> Sourced<PathBuf> {
        if let Some(text) = env::filled(&self.env, "DELEGATE_LOCAL_AGENTS_DIR") {
            let origin = Origin::Env("DELEGATE_LOCAL_AGENTS_DIR".to_owned());
            return Sourced::new(self.expand(text, &self.home), origin);
        }
        if let Some(text) = &self.own.agents.dir {
            return Sourced::new(
                self.expand(text, &self.home),
                Origin::File(self.own_path.clone()),
            );
        }
        Sourced::new(self.home.join(".claude/agents"), Origin::Default)
    }

    fn expand(&self, text: &str, base: &Path) -> PathBuf {
        if text == "~" {
            return self.home.clone();
        }
        match text.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => base.join(text),
        }
    }

    /// The default model of the `agents` tools, before any call has its say.
    pub fn default_model(&self) -> Sourced<String> {
        self.text("model")
            .unwrap_or_else(|| Sourced::new(self.models.agents.model.clone(), Origin::Default))
    }

    /// The configured URL of the `agents` tools.
    pub fn default_url(&self) -> Sourced<String> {
        self.text("base_url")
            .unwrap_or_else(|| Sourced::new(self.models.agents.base_url.clone(), Origin::Default))
    }
}
