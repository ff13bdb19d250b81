//! `~/.config/delegate/config.toml`: the names of `--set` at the top, and the
//! tables `[deepseek]`, `[agents]` and `[[models]]`.

use std::path::Path;

use toml::{Table, Value};

use super::credential::Reasoning;
use super::error::{ConfigError, closest};
use super::keys::{self, KEYS, Setting};
use super::models::{self, Entry};
use super::url::parse_base;

/// What the file says.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    pub settings: Vec<(&'static str, Setting)>,
    pub deepseek: OwnDeepseek,
    pub agents: OwnAgents,
    pub models: Vec<Entry>,
}

/// The table `[deepseek]`.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnDeepseek {
    pub base_url: Option<String>,
    pub flash: Option<String>,
    pub pro: Option<String>,
    pub flash_effort: Option<Reasoning>,
    pub pro_effort: Option<Reasoning>,
    pub workspace: Option<String>,
}

/// The table `[agents]`.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnAgents {
    pub dir: Option<String>,
    pub coding_model: Option<String>,
}

const TABLES: [&str; 3] = ["deepseek", "agents", "models"];
const DEEPSEEK: [&str; 6] = [
    "base_url",
    "flash",
    "pro",
    "flash_reasoning_effort",
    "pro_reasoning_effort",
    "workspace",
];
const AGENTS: [&str; 2] = ["dir", "coding_model"];

/// Parses the text of the file at `path` (the path is for errors only).
pub(super) fn parse(text: &str, path: &Path) -> Result<Own, ConfigError> {
    let place = path.display().to_string();
    // Not the error's Display: it quotes the line, which may hold a secret.
    let table: Table = toml::from_str(text).map_err(|error| ConfigError::Malformed {
        path: path.to_owned(),
        cause: match error.span() {
            Some(span) => format!("line {}: {}", line_of(text, span.start), error.message()),
            None => error.message().to_owned(),
        },
    })?;
    let mut own = Own::default();
    for (name, value) in &table {
        match name.as_str() {
            "deepseek" => own.deepseek = deepseek(sub(name, value, &place)?, &place)?,
            "agents" => own.agents = agents(sub(name, value, &place)?, &place)?,
            "models" => own.models = entries(value, &place)?,
            other => {
                let key = keys::find(other, &place).map_err(|error| widen(error, other))?;
                own.settings
                    .push((key.name, key.check(setting(value, key, &place)?, &place)?));
            }
        }
    }
    Ok(own)
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Lets "did you mean" see the tables as well as the settings.
fn widen(error: ConfigError, name: &str) -> ConfigError {
    let ConfigError::UnknownKey { place, .. } = error else {
        return error;
    };
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).chain(TABLES).collect();
    ConfigError::UnknownKey {
        name: name.to_owned(),
        place,
        suggestion: closest(name, &known),
    }
}

fn bad(name: &str, place: &str, wanted: &str, value: &Value) -> ConfigError {
    ConfigError::BadValue {
        name: name.to_owned(),
        place: place.to_owned(),
        wanted: wanted.to_owned(),
        got: match value {
            Value::Integer(number) => number.to_string(),
            other => format!("of type {}", other.type_str()),
        },
    }
}

fn setting(value: &Value, key: &keys::Key, place: &str) -> Result<Setting, ConfigError> {
    let refuse = || bad(key.name, place, &key.wanted(), value);
    Ok(match value {
        Value::Integer(number) => Setting::Int(u64::try_from(*number).map_err(|_| refuse())?),
        Value::Boolean(switch) => Setting::Bool(*switch),
        Value::String(text) => Setting::Text(text.clone()),
        _ => return Err(refuse()),
    })
}

fn sub<'a>(name: &str, value: &'a Value, place: &str) -> Result<&'a Table, ConfigError> {
    value
        .as_table()
        .ok_or_else(|| bad(name, place, &format!("a table, [{name}]"), value))
}

fn text(name: &str, value: &Value, place: &str) -> Result<String, ConfigError> {
    value
        .as_str()
        .filter(|text| !text.trim().is_empty() && !text.chars().any(char::is_control))
        .map(str::to_owned)
        .ok_or_else(|| bad(name, place, "text on one line, not blank", value))
}

fn unknown(name: &str, table: &str, known: &[&str], place: &str) -> ConfigError {
    ConfigError::UnknownKey {
        name: format!("{table}.{name}"),
        place: place.to_owned(),
        suggestion: closest(name, known).map(|close| format!("{table}.{close}")),
    }
}

fn deepseek(table: &Table, place: &str) -> Result<OwnDeepseek, ConfigError> {
    let mut own = OwnDeepseek::default();
    let effort = |name: &str, value: &Value| {
        value
            .as_str()
            .and_then(Reasoning::from_word)
            .ok_or_else(|| {
                let wanted = format!("one of {}", Reasoning::WORDS.join(", "));
                bad(name, place, &wanted, value)
            })
    };
    for (name, value) in table {
        match name.as_str() {
            "base_url" => {
                let url = text(name, value, place)?;
                parse_base(&url, place)?;
                own.base_url = Some(url);
            }
            "flash" => own.flash = Some(text(name, value, place)?),
            "pro" => own.pro = Some(text(name, value, place)?),
            "flash_reasoning_effort" => own.flash_effort = Some(effort(name, value)?),
            "pro_reasoning_effort" => own.pro_effort = Some(effort(name, value)?),
            "workspace" => own.workspace = Some(text(name, value, place)?),
            other => return Err(unknown(other, "deepseek", &DEEPSEEK, place)),
        }
    }
    Ok(own)
}

fn agents(table: &Table, place: &str) -> Result<OwnAgents, ConfigError> {
    let mut own = OwnAgents::default();
    for (name, value) in table {
        match name.as_str() {
            "dir" => own.dir = Some(text(name, value, place)?),
            "coding_model" => own.coding_model = Some(text(name, value, place)?),
            other => return Err(unknown(other, "agents", &AGENTS, place)),
        }
    }
    Ok(own)
}

fn entries(value: &Value, place: &str) -> Result<Vec<Entry>, ConfigError> {
    let refuse = |value: &Value| bad("models", place, "a list of tables, [[models]]", value);
    let mut list = Vec::new();
    for item in value.as_array().ok_or_else(|| refuse(value))? {
        let table = item.as_table().ok_or_else(|| refuse(item))?;
        if let Some(name) = table
            .keys()
            .find(|name| !models::FIELDS.contains(&name.as_str()))
        {
            return Err(unknown(name, "models", models::FIELDS, place));
        }
        let entry: Entry =
            item.clone()
                .try_into()
                .map_err(|error: toml::de::Error| ConfigError::Malformed {
                    path: place.into(),
                    cause: format!("[[models]]: {}", error.message()),
                })?;
        if entry.name.is_none() && entry.prefix.is_none() && entry.suffix.is_none() {
            return Err(ConfigError::Malformed {
                path: place.into(),
                cause: "[[models]]: an entry needs a name, prefix or suffix".to_owned(),
            });
        }
        list.push(entry);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Own, ConfigError> {
        parse(text, Path::new("/h/config.toml"))
    }

    #[test]
    fn the_names_of_set_work_at_the_top_and_tables_below() {
        let own = read(
            "max_turns = 12\nstream = false\ntool_mode = \"native\"\nbase_url = \"http://h/v1\"\n\
             [deepseek]\nflash = \"f\"\nflash_reasoning_effort = \"high\"\n\
             [agents]\ncoding_model = \"c\"\n\
             [[models]]\nprefix = \"x-\"\nwire = \"openai\"\nlocal = true\n",
        )
        .expect("valid");
        assert_eq!(
            own.settings,
            [
                ("base_url", Setting::Text("http://h/v1".into())),
                ("max_turns", Setting::Int(12)),
                ("stream", Setting::Bool(false)),
                ("tool_mode", Setting::Text("native".into())),
            ]
        );
        assert_eq!(own.deepseek.flash_effort, Some(Reasoning::High));
        assert_eq!(own.agents.coding_model.as_deref(), Some("c"));
        assert_eq!(own.models[0].local, Some(true));
    }

    #[test]
    fn unknown_names_are_refused_at_every_depth_with_the_closest_one() {
        for (text, close) in [
            ("max_turn = 3", "max_turns"),
            ("[deepsek]\nflash = \"a\"", "deepseek"),
            ("[deepseek]\nflas = \"a\"", "deepseek.flash"),
            ("[agents]\ncodin_model = \"a\"", "agents.coding_model"),
            ("[[models]]\nprefx = \"a\"", "models.prefix"),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.code(), "config_unknown_key", "{text}");
            let shown = error.to_string();
            assert!(
                shown.contains(&format!("did you mean `{close}`?")),
                "{shown}"
            );
        }
    }

    #[test]
    fn types_are_strict_and_errors_quote_no_line() {
        for text in [
            "max_turns = \"5\"",
            "max_turns = 1.5",
            "max_turns = true",
            "max_turns = 0",
            "max_turns = -1",
            "stream = 1",
            "deepseek = 3",
            "models = 3",
            "[[models]]\nwire = \"openai\"",
            "[[models]]\nprefix = \"a\"\nwire = \"http\"",
            "[deepseek]\npro_reasoning_effort = \"medium\"",
            "[deepseek]\nbase_url = \"ftp://h\"",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let error = read("a = 1\nkey = 5ECRET").expect_err("syntax").to_string();
        assert!(
            error.contains("line 2") && !error.contains("5ECRET"),
            "{error}"
        );
    }
}
