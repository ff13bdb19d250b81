//! What can be wrong with a configuration, each with a way out.

use std::path::PathBuf;

/// A configuration that cannot be used. Never holds a secret: values of secret
/// settings are left out of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A name that no setting has.
    #[error("{place}: there is no setting `{name}`{}. `delegate config show` lists them all.", did_you_mean(.suggestion))]
    UnknownKey {
        /// The name as written.
        name: String,
        /// Where it stands: `--set`, or a file.
        place: String,
        /// The closest name that exists.
        suggestion: Option<String>,
    },
    /// A value of the wrong type or out of bounds.
    #[error("{place}: `{name}` must be {wanted}, and is {got}.")]
    BadValue {
        /// The setting or variable.
        name: String,
        /// Where it stands.
        place: String,
        /// What is accepted.
        wanted: String,
        /// What was found, or a description of it for a secret.
        got: String,
    },
    /// `--set` without `=`.
    #[error("--set `{text}` is not KEY=VALUE. Example: --set max_turns=20.")]
    NotKeyValue {
        /// The argument.
        text: String,
    },
    /// A file that could not be read.
    #[error("{}: cannot be read: {cause}. Correct its permissions or remove it.", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: String,
    },
    /// A file that other users could have changed or read.
    #[error("{}: {cause}. {remedy}", path.display())]
    Unsafe {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
        /// The command or act that cures it.
        remedy: String,
    },
    /// A file that does not parse.
    #[error("{}: {cause}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Position and reason.
        cause: String,
    },
    /// A base URL that cannot be used.
    #[error("{place}: the base URL {cause}. Example: http://127.0.0.1:8080/v1.")]
    BadUrl {
        /// Where it stands.
        place: String,
        /// What is wrong; never the URL itself, which may hold a password.
        cause: String,
    },
    /// A key that is needed and not there.
    #[error("no key for {host}: {remedy}")]
    KeyMissing {
        /// The host that wants it.
        host: String,
        /// How to give one.
        remedy: String,
    },
    /// `DELEGATE_GATEWAY` and its company.
    #[error("{variable} {cause}.")]
    Gateway {
        /// The variable to correct.
        variable: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// `DEEPSEEK_MODE` is neither `auto` nor `off`.
    #[error("DEEPSEEK_MODE must be exactly `auto` or `off`, and is `{got}`.")]
    BadMode {
        /// What it is.
        got: String,
    },
}

impl ConfigError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ConfigError::UnknownKey { .. } => "config_unknown_key",
            ConfigError::BadValue { .. } => "config_bad_value",
            ConfigError::NotKeyValue { .. } => "config_not_key_value",
            ConfigError::Unreadable { .. } => "config_unreadable",
            ConfigError::Unsafe { .. } => "config_unsafe_file",
            ConfigError::Malformed { .. } => "config_malformed",
            ConfigError::BadUrl { .. } => "config_bad_url",
            ConfigError::KeyMissing { .. } => "config_key_missing",
            ConfigError::Gateway { .. } => "config_gateway",
            ConfigError::BadMode { .. } => "config_bad_mode",
        }
    }

    /// Whether a server must not even start with it (the gateway switch);
    /// every other defect is reported by the first tool that needs the value.
    pub fn stops_start_up(&self) -> bool {
        matches!(self, ConfigError::Gateway { .. })
    }
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    }
}

/// The name of `known` that is closest to `word`, if any is close.
pub(super) fn closest(word: &str, known: &[&str]) -> Option<String> {
    similar::get_close_matches(word, known, 1, 0.7)
        .first()
        .map(|name| (*name).to_owned())
}
