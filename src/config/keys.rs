//! The table of settings: names, types, bounds. One list for `--set`, for the
//! environment (`DELEGATE_` and the name in capitals) and for `config.toml`.

use jail::Observe;

use std::time::Duration;

use super::error::{ConfigError, closest};
use super::{RunSettings, ToolMode};

/// What a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within bounds, both included.
    Int {
        /// Least.
        min: u64,
        /// Most.
        max: u64,
    },
    /// `true` or `false`.
    Bool,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// Text without control characters, not blank.
    Text,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// One line for `config show`.
    pub about: &'static str,
}

/// A value that passed the checks of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A number.
    Int(u64),
    /// A switch.
    Bool(bool),
    /// A word or text.
    Text(String),
}

impl Setting {
    /// The value as a person writes it.
    pub fn show(&self) -> String {
        match self {
            Setting::Int(number) => number.to_string(),
            Setting::Bool(switch) => switch.to_string(),
            Setting::Text(text) => text.clone(),
        }
    }
}

const DAY_MS: u64 = 86_400_000;

const fn int(name: &'static str, min: u64, max: u64, about: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Int { min, max },
        about,
    }
}

const fn switch(name: &'static str, about: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Bool,
        about,
    }
}

const fn text(name: &'static str, about: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Text,
        about,
    }
}

/// Every setting of a run, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    text("base_url", "where the model is"),
    text("model", "model name as the server knows it"),
    Key {
        name: "wire",
        kind: Kind::Choice(&["openai", "anthropic"]),
        about: "protocol spoken at base_url",
    },
    text("key_env", "environment variable that holds the key"),
    Key {
        name: "tool_mode",
        kind: Kind::Choice(&["auto", "native", "structured"]),
        about: "how tools are offered to the model",
    },
    Key {
        name: "observe",
        kind: Kind::Choice(&["off", "writes", "all"]),
        about: "which refused accesses of Bash are reported; all costs a notification for each open",
    },
    int("max_turns", 1, 150, "model answers in one run"),
    int(
        "max_run_seconds",
        1,
        172_800,
        "wall clock of one run, in seconds",
    ),
    int(
        "max_output_tokens",
        1,
        1_000_000,
        "output bound of one answer, in tokens",
    ),
    int(
        "context_window",
        1_024,
        100_000_000,
        "what the model can hold, in tokens",
    ),
    int(
        "max_attempts",
        1,
        20,
        "tries for one model call, the first included",
    ),
    int(
        "retry_base_ms",
        0,
        600_000,
        "first wait of our own backoff, in milliseconds",
    ),
    int(
        "retry_cap_ms",
        0,
        600_000,
        "longest wait of our own backoff, in milliseconds",
    ),
    int(
        "connect_timeout_ms",
        1,
        600_000,
        "bound on making a connection, in milliseconds",
    ),
    int(
        "first_byte_timeout_ms",
        1,
        DAY_MS,
        "bound from request to first byte, in milliseconds",
    ),
    int(
        "idle_timeout_ms",
        1,
        DAY_MS,
        "longest gap between bytes, in milliseconds",
    ),
    switch("stream", "whether answers are streamed"),
    switch("vision", "whether the model takes images"),
    int(
        "progress_interval_ms",
        10,
        3_600_000,
        "longest silence towards the host, in milliseconds",
    ),
    int(
        "bash_timeout_ms",
        1,
        1_800_000,
        "default deadline of one Bash call, in milliseconds",
    ),
    int(
        "max_nudges",
        0,
        5,
        "how often an empty or merely announcing answer is asked again",
    ),
    int(
        "keep_tool_results",
        0,
        1_000,
        "newest tool results that pruning leaves whole; 0 never prunes",
    ),
];

/// The key called `name`.
pub fn find(name: &str, place: &str) -> Result<&'static Key, ConfigError> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        ConfigError::UnknownKey {
            name: name.to_owned(),
            place: place.to_owned(),
            suggestion: closest(name, &names),
        }
    })
}

impl Key {
    /// What is accepted, as a phrase.
    pub fn wanted(&self) -> String {
        match self.kind {
            Kind::Int { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Bool => "true or false".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Text => "text on one line, not blank".to_owned(),
        }
    }

    fn refuse(&self, place: &str, got: impl Into<String>) -> ConfigError {
        ConfigError::BadValue {
            name: self.name.to_owned(),
            place: place.to_owned(),
            wanted: self.wanted(),
            got: got.into(),
        }
    }

    /// Reads a value written as text, on a command line or in a variable.
    pub fn parse(&self, text: &str, place: &str) -> Result<Setting, ConfigError> {
        let shown = || format!("`{}`", text.escape_debug());
        match self.kind {
            // `parse` alone would take "+5".
            Kind::Int { .. } if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                let number = text.parse().map_err(|_| self.refuse(place, shown()))?;
                self.check(Setting::Int(number), place)
            }
            Kind::Bool if text == "true" || text == "false" => Ok(Setting::Bool(text == "true")),
            Kind::Int { .. } | Kind::Bool => Err(self.refuse(place, shown())),
            Kind::Choice(_) | Kind::Text => self.check(Setting::Text(text.to_owned()), place),
        }
    }

    /// Takes a value that already has a type.
    pub fn check(&self, value: Setting, place: &str) -> Result<Setting, ConfigError> {
        let fits = match (self.kind, &value) {
            (Kind::Int { min, max }, Setting::Int(number)) => (min..=max).contains(number),
            (Kind::Bool, Setting::Bool(_)) => true,
            (Kind::Choice(words), Setting::Text(word)) => words.contains(&word.as_str()),
            (Kind::Text, Setting::Text(text)) => {
                !text.trim().is_empty() && !text.chars().any(char::is_control)
            }
            _ => false,
        };
        if fits {
            Ok(value)
        } else {
            let got = match &value {
                Setting::Text(text) => format!("`{}`", text.escape_debug()),
                other => other.show(),
            };
            Err(self.refuse(place, got))
        }
    }
}

/// Puts a checked value into the settings; names that are no part of
/// [`RunSettings`] (`model` and its like) change nothing.
pub fn apply(settings: &mut RunSettings, name: &str, value: &Setting) {
    match value {
        Setting::Int(number) => apply_int(settings, name, *number),
        Setting::Bool(switch) => match name {
            "stream" => settings.stream = *switch,
            "vision" => settings.vision = *switch,
            _ => {}
        },
        Setting::Text(word) if name == "tool_mode" => {
            settings.tool_mode = match word.as_str() {
                "native" => ToolMode::Native,
                "structured" => ToolMode::Structured,
                _ => ToolMode::Auto,
            };
        }
        Setting::Text(word) if name == "observe" => {
            settings.observe = match word.as_str() {
                "off" => Observe::Off,
                "all" => Observe::All,
                _ => Observe::Writes,
            };
        }
        Setting::Text(_) => {}
    }
}

fn apply_int(settings: &mut RunSettings, name: &str, number: u64) {
    // Every bound of the table lies below u32::MAX where the field is a u32.
    let small = u32::try_from(number).unwrap_or(u32::MAX);
    let time = Duration::from_millis(number);
    match name {
        "max_attempts" => settings.max_attempts = small,
        "retry_base_ms" => settings.retry_base = time,
        "retry_cap_ms" => settings.retry_cap = time,
        "connect_timeout_ms" => settings.connect_timeout = time,
        "first_byte_timeout_ms" => settings.first_byte_timeout = time,
        "idle_timeout_ms" => settings.idle_timeout = time,
        "max_turns" => settings.max_turns = small,
        "max_output_tokens" => settings.max_output_tokens = small,
        "context_window" => settings.context_window = small,
        "progress_interval_ms" => settings.progress_interval = time,
        "bash_timeout_ms" => settings.bash_timeout = time,
        "max_run_seconds" => settings.max_run = Duration::from_secs(number),
        "max_nudges" => settings.max_nudges = small,
        "keep_tool_results" => settings.keep_tool_results = small,
        _ => {}
    }
}

/// The value of a setting as it stands in `settings`, for `config show`.
pub fn current(settings: &RunSettings, name: &str) -> Option<String> {
    let ms = |time: Duration| time.as_millis().to_string();
    Some(match name {
        "max_attempts" => settings.max_attempts.to_string(),
        "retry_base_ms" => ms(settings.retry_base),
        "retry_cap_ms" => ms(settings.retry_cap),
        "connect_timeout_ms" => ms(settings.connect_timeout),
        "first_byte_timeout_ms" => ms(settings.first_byte_timeout),
        "idle_timeout_ms" => ms(settings.idle_timeout),
        "max_turns" => settings.max_turns.to_string(),
        "max_output_tokens" => settings.max_output_tokens.to_string(),
        "context_window" => settings.context_window.to_string(),
        "stream" => settings.stream.to_string(),
        "vision" => settings.vision.to_string(),
        "progress_interval_ms" => ms(settings.progress_interval),
        "bash_timeout_ms" => ms(settings.bash_timeout),
        "max_run_seconds" => settings.max_run.as_secs().to_string(),
        "tool_mode" => settings.tool_mode.name().to_owned(),
        "observe" => match settings.observe {
            Observe::Off => "off",
            Observe::Writes => "writes",
            Observe::All => "all",
        }
        .to_owned(),
        "max_nudges" => settings.max_nudges.to_string(),
        "keep_tool_results" => settings.keep_tool_results.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, text: &str) -> Result<Setting, ConfigError> {
        find(name, "--set")?.parse(text, "--set")
    }

    #[test]
    fn bounds_are_inclusive_and_everything_beyond_is_refused() {
        assert_eq!(parse("max_turns", "1"), Ok(Setting::Int(1)));
        assert_eq!(parse("max_turns", "150"), Ok(Setting::Int(150)));
        for bad in [
            "0",
            "151",
            "-1",
            "1.5",
            "true",
            "",
            "+5",
            "99999999999999999999",
        ] {
            let error = parse("max_turns", bad).expect_err(bad);
            assert_eq!(error.code(), "config_bad_value", "{bad}");
            assert!(error.to_string().contains("from 1 to 150"), "{error}");
        }
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_right_one() {
        let error = parse("max_turn", "3").expect_err("unknown");
        assert_eq!(error.code(), "config_unknown_key");
        assert!(
            error.to_string().contains("did you mean `max_turns`?"),
            "{error}"
        );
        let error = parse("zzz", "3").expect_err("unknown");
        assert!(!error.to_string().contains("did you mean"), "{error}");
    }

    #[test]
    fn every_setting_of_a_run_can_be_set_and_is_shown_as_set() {
        for key in KEYS {
            let (text, other) = match key.kind {
                Kind::Int { min, .. } => ((min + 1).to_string(), (min + 2).to_string()),
                Kind::Bool => ("true".to_owned(), "false".to_owned()),
                Kind::Choice(words) => (words[0].to_owned(), words[1].to_owned()),
                Kind::Text => continue,
            };
            let mut settings = RunSettings::default();
            for value in [text, other] {
                let parsed = key.parse(&value, "test").expect("in bounds");
                apply(&mut settings, key.name, &parsed);
                if key.name != "wire" {
                    assert_eq!(current(&settings, key.name), Some(value), "{}", key.name);
                }
            }
        }
    }

    #[test]
    fn words_and_switches_are_exact() {
        assert_eq!(
            parse("tool_mode", "structured"),
            Ok(Setting::Text("structured".into()))
        );
        assert!(parse("tool_mode", "Structured").is_err());
        assert_eq!(parse("stream", "false"), Ok(Setting::Bool(false)));
        assert!(parse("stream", "0").is_err());
        assert!(parse("model", "  ").is_err());
        assert!(parse("model", "a\nb").is_err());
    }
}
