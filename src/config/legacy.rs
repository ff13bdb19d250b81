//! `~/.deepseek-mcp/config.json`, exactly as the old system reads it.

use std::path::Path;

use secrecy::SecretString;
use serde_json::Value;

use super::credential::Reasoning;
use super::error::{ConfigError, closest};
use super::legacy_json;
use super::url::parse_base;

/// The seven names that `allowed_tools` may list.
const TOOLS: [&str; 7] = [
    "Read",
    "Write",
    "Edit",
    "Bash",
    "Glob",
    "Grep",
    "NotebookEdit",
];

const KEYS: &[&str] = &[
    "api_key",
    "base_url",
    "flash",
    "pro",
    "model",
    "flash_reasoning_effort",
    "pro_reasoning_effort",
    "_reasoning_effort_options",
    "max_turns",
    "max_run_seconds",
    "max_output_tokens",
    "allowed_tools",
    "workspace",
];

/// The legacy file, checked. `None` where the file is silent.
#[derive(Clone, Debug, Default)]
pub struct Legacy {
    /// `api_key`; never printed.
    pub api_key: Option<SecretString>,
    /// `base_url`, checked.
    pub base_url: Option<String>,
    /// `flash`, or the older `model`.
    pub flash: Option<String>,
    /// `pro`, or the older `model`.
    pub pro: Option<String>,
    /// `flash_reasoning_effort`.
    pub flash_effort: Option<Reasoning>,
    /// `pro_reasoning_effort`.
    pub pro_effort: Option<Reasoning>,
    /// `max_turns`, 1 to 100.
    pub max_turns: Option<u64>,
    /// `max_run_seconds`, 1 to 172,800.
    pub max_run_seconds: Option<u64>,
    /// `max_output_tokens`, 1 to 16,384.
    pub max_output_tokens: Option<u64>,
    /// `workspace`, not yet looked at.
    pub workspace: Option<String>,
}

struct Reader<'a> {
    path: &'a Path,
}

impl Reader<'_> {
    fn bad(&self, name: &str, wanted: &str, got: String) -> ConfigError {
        ConfigError::BadValue {
            name: name.to_owned(),
            place: self.path.display().to_string(),
            wanted: wanted.to_owned(),
            got,
        }
    }

    fn malformed(&self, cause: impl Into<String>) -> ConfigError {
        ConfigError::Malformed {
            path: self.path.to_owned(),
            cause: cause.into(),
        }
    }

    fn int(&self, name: &str, value: &Value, most: u64) -> Result<u64, ConfigError> {
        // A float that is whole, a string of digits and a switch are no numbers.
        value
            .as_u64()
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| {
                self.bad(
                    name,
                    &format!("a whole number from 1 to {most}"),
                    value.to_string(),
                )
            })
    }

    fn text(&self, name: &str, value: &Value) -> Result<String, ConfigError> {
        value
            .as_str()
            .filter(|text| {
                !text.is_empty() && text.trim() == *text && !text.chars().any(char::is_control)
            })
            .map(str::to_owned)
            .ok_or_else(|| {
                self.bad(
                    name,
                    "text that is not empty, without blanks at its ends and control characters",
                    value.to_string(),
                )
            })
    }

    fn effort(&self, name: &str, value: &Value) -> Result<Reasoning, ConfigError> {
        value
            .as_str()
            .and_then(Reasoning::from_word)
            .ok_or_else(|| {
                let wanted = format!("one of {}", Reasoning::WORDS.join(", "));
                self.bad(name, &wanted, value.to_string())
            })
    }

    /// The list selects nothing (capabilities do), but a wrong one is an error.
    fn check_tools(&self, value: &Value) -> Result<(), ConfigError> {
        let refuse = || {
            self.bad(
                "allowed_tools",
                &format!("a list of names out of {}, none twice", TOOLS.join(", ")),
                value.to_string(),
            )
        };
        let mut seen = Vec::new();
        for item in value.as_array().ok_or_else(refuse)? {
            let name = item.as_str().filter(|name| TOOLS.contains(name));
            let name = name.ok_or_else(refuse)?;
            if seen.contains(&name) {
                return Err(refuse());
            }
            seen.push(name);
        }
        Ok(())
    }
}

/// Parses the text of the file at `path` (the path is for errors only).
pub(super) fn parse(text: &str, path: &Path) -> Result<Legacy, ConfigError> {
    let reader = Reader { path };
    let value = legacy_json::parse(text)
        .map_err(|error| reader.malformed(format!("is not valid JSON: {error}")))?;
    let Value::Object(map) = value else {
        return Err(reader.malformed("must hold one JSON object"));
    };
    let mut legacy = Legacy::default();
    let mut model = None;
    for (name, value) in &map {
        match name.as_str() {
            "api_key" => {
                // The value stays out of the error.
                let key = value
                    .as_str()
                    .ok_or_else(|| reader.bad(name, "text", "something else".to_owned()))?;
                legacy.api_key = Some(SecretString::from(key.to_owned()));
            }
            "base_url" => {
                let text = value
                    .as_str()
                    .ok_or_else(|| reader.bad(name, "an http or https URL", "no text".into()))?;
                parse_base(text, &path.display().to_string())?;
                legacy.base_url = Some(text.to_owned());
            }
            "flash" => legacy.flash = Some(reader.text(name, value)?),
            "pro" => legacy.pro = Some(reader.text(name, value)?),
            "model" => model = Some(reader.text(name, value)?),
            "flash_reasoning_effort" => legacy.flash_effort = Some(reader.effort(name, value)?),
            "pro_reasoning_effort" => legacy.pro_effort = Some(reader.effort(name, value)?),
            "_reasoning_effort_options" => {}
            "max_turns" => legacy.max_turns = Some(reader.int(name, value, 100)?),
            "max_run_seconds" => legacy.max_run_seconds = Some(reader.int(name, value, 172_800)?),
            "max_output_tokens" => {
                legacy.max_output_tokens = Some(reader.int(name, value, 16_384)?);
            }
            "allowed_tools" => reader.check_tools(value)?,
            "workspace" => {
                let text = value.as_str().filter(|text| !text.trim().is_empty());
                let text =
                    text.ok_or_else(|| reader.bad(name, "a path, not blank", value.to_string()))?;
                legacy.workspace = Some(text.to_owned());
            }
            other => {
                return Err(ConfigError::UnknownKey {
                    name: other.to_owned(),
                    place: path.display().to_string(),
                    suggestion: closest(other, KEYS),
                });
            }
        }
    }
    if let Some(model) = model {
        if legacy.flash.is_some() || legacy.pro.is_some() {
            return Err(reader.malformed(
                "has `model` beside `flash` or `pro`. `model` is the older name of both: remove it.",
            ));
        }
        legacy.flash = Some(model.clone());
        legacy.pro = Some(model);
    }
    Ok(legacy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn read(text: &str) -> Result<Legacy, ConfigError> {
        parse(text, Path::new("/h/.deepseek-mcp/config.json"))
    }

    #[test]
    fn every_key_of_the_old_file_is_understood() {
        let legacy = read(
            r#"{"api_key":"k","base_url":"https://api.deepseek.com","flash":"a","pro":"b",
                "flash_reasoning_effort":"high","pro_reasoning_effort":"provider-default",
                "_reasoning_effort_options":[1],"max_turns":100,"max_run_seconds":172800,
                "max_output_tokens":16384,"allowed_tools":["Read","Bash"],"workspace":"~/x"}"#,
        )
        .expect("valid");
        assert_eq!(
            legacy
                .api_key
                .map(|k| k.expose_secret().to_owned())
                .as_deref(),
            Some("k")
        );
        assert_eq!(legacy.flash.as_deref(), Some("a"));
        assert_eq!(legacy.pro.as_deref(), Some("b"));
        assert_eq!(legacy.flash_effort, Some(Reasoning::High));
        assert_eq!(legacy.max_turns, Some(100));
        assert!(read("{}").is_ok());
    }

    #[test]
    fn numbers_are_strict() {
        for (key, most) in [
            ("max_turns", 100u64),
            ("max_run_seconds", 172_800),
            ("max_output_tokens", 16_384),
        ] {
            for good in [1, most] {
                assert!(
                    read(&format!(r#"{{"{key}":{good}}}"#)).is_ok(),
                    "{key} {good}"
                );
            }
            let over = (most + 1).to_string();
            for bad in ["0", "true", "\"5\"", "1.5", "1.0", "-1", "null", &over] {
                let error = read(&format!(r#"{{"{key}":{bad}}}"#)).expect_err(bad);
                assert_eq!(error.code(), "config_bad_value", "{key} {bad}");
            }
        }
    }

    #[test]
    fn model_is_the_older_name_of_both_profiles() {
        let legacy = read(r#"{"model":"m"}"#).expect("valid");
        assert_eq!(
            (legacy.flash.as_deref(), legacy.pro.as_deref()),
            (Some("m"), Some("m"))
        );
        assert!(read(r#"{"model":"m","flash":"a"}"#).is_err());
    }

    #[test]
    fn whatever_is_wrong_names_the_file_and_no_secret() {
        for bad in [
            r#"{"api_key":"5ECRET","max_turn":3}"#,
            r#"{"api_key":"5ECRET","api_key":"5ECRET"}"#,
            r#"{"api_key":["5ECRET"]}"#,
            r#"["5ECRET"]"#,
            r#"{"base_url":"http://u:5ECRET@h/"}"#,
            r#"{"allowed_tools":["Read","Read"]}"#,
            r#"{"allowed_tools":["Fetch"]}"#,
            r#"{"flash":" a"}"#,
            r#"{"workspace":" "}"#,
            r#"{"pro_reasoning_effort":"medium"}"#,
        ] {
            let text = read(bad).expect_err(bad).to_string();
            assert!(text.contains("config.json"), "{text}");
            assert!(!text.contains("5ECRET"), "{text}");
        }
        let text = read(r#"{"max_turn":3}"#).expect_err("unknown").to_string();
        assert!(text.contains("did you mean `max_turns`?"), "{text}");
    }
}
