//! The environment as a layer. Names of our own are `DELEGATE_` and the
//! setting in capitals; those of the two old systems are honoured beside them.

use std::collections::BTreeMap;

use super::error::ConfigError;
use super::keys::{self, KEYS, Setting};

/// How an old variable is written.
enum Unit {
    /// As the setting itself.
    Same,
    /// Seconds, for a setting in milliseconds.
    Seconds,
    /// A switch in the tolerant notation of the old system.
    Switch,
}

/// Old name, setting, notation. They speak of the `agents` tools only.
const OLD: &[(&str, &str, Unit)] = &[
    ("DELEGATE_LOCAL_URL", "base_url", Unit::Same),
    ("DELEGATE_LOCAL_MODEL", "model", Unit::Same),
    ("DELEGATE_DISPATCH_TIMEOUT", "max_run_seconds", Unit::Same),
    ("DELEGATE_STREAMING", "stream", Unit::Switch),
    (
        "DELEGATE_RUN_BASH_TIMEOUT",
        "bash_timeout_ms",
        Unit::Seconds,
    ),
];

/// A value with the variable that gave it.
pub(super) type Given = BTreeMap<&'static str, (Setting, String)>;

/// An empty variable is an unset one: hosts pass such.
pub(super) fn filled<'a>(env: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    env.get(name)
        .map(String::as_str)
        .filter(|text| !text.is_empty())
}

/// The variables of our own naming, for every tool set.
pub(super) fn ours(env: &BTreeMap<String, String>) -> Result<Given, ConfigError> {
    let mut given = Given::new();
    for key in KEYS {
        let name = format!("DELEGATE_{}", key.name.to_ascii_uppercase());
        if let Some(text) = filled(env, &name) {
            let value = match key.kind {
                keys::Kind::Bool => switch(text, &name)?,
                _ => key.parse(text, &name)?,
            };
            given.insert(key.name, (value, name));
        }
    }
    Ok(given)
}

/// The variables of the old system, for the `agents` tools.
pub(super) fn old(env: &BTreeMap<String, String>) -> Result<Given, ConfigError> {
    let mut given = Given::new();
    for (name, setting, unit) in OLD {
        let Some(text) = filled(env, name) else {
            continue;
        };
        let key = keys::find(setting, name)?;
        let value = match unit {
            Unit::Same => key.parse(text.trim(), name)?,
            Unit::Switch => switch(text, name)?,
            Unit::Seconds => {
                let seconds = number(env, name, 1, 1_800)?.unwrap_or(1);
                key.check(Setting::Int(seconds.saturating_mul(1_000)), name)?
            }
        };
        given.insert(key.name, (value, (*name).to_owned()));
    }
    Ok(given)
}

/// A number in a variable that is no setting.
pub(super) fn number(
    env: &BTreeMap<String, String>,
    name: &str,
    min: u64,
    max: u64,
) -> Result<Option<u64>, ConfigError> {
    let Some(text) = filled(env, name) else {
        return Ok(None);
    };
    text.trim()
        .parse()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .map(Some)
        .ok_or_else(|| ConfigError::BadValue {
            name: name.to_owned(),
            place: "environment".to_owned(),
            wanted: format!("a whole number from {min} to {max}"),
            got: format!("`{}`", text.escape_debug()),
        })
}

fn switch(text: &str, name: &str) -> Result<Setting, ConfigError> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(Setting::Bool(true)),
        "0" | "false" | "no" | "off" => Ok(Setting::Bool(false)),
        _ => Err(ConfigError::BadValue {
            name: name.to_owned(),
            place: "environment".to_owned(),
            wanted: "1, true, yes, on, 0, false, no or off".to_owned(),
            got: format!("`{}`", text.escape_debug()),
        }),
    }
}
