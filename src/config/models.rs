//! What is known of models by name: the built-in table and the user's entries.

use serde::Deserialize;

use super::error::ConfigError;
use super::target::Wire;

const BUILTIN: &str = include_str!("../../data/models.toml");

/// One entry of the table, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Entry {
    pub name: Option<String>,
    pub prefix: Option<String>,
    pub suffix: Option<String>,
    pub wire: Option<Wire>,
    pub max_output_tokens: Option<u32>,
    pub output_cap: Option<u32>,
    pub context_window: Option<u32>,
    pub local: Option<bool>,
    pub cache_marks: Option<bool>,
}

/// Names of the fields, for "did you mean".
pub(super) const FIELDS: &[&str] = &[
    "name",
    "prefix",
    "suffix",
    "wire",
    "max_output_tokens",
    "output_cap",
    "context_window",
    "local",
    "cache_marks",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    deepseek: DeepseekDefaults,
    agents: AgentDefaults,
    models: Vec<Entry>,
}

/// Built-in values of the `deepseek` tools.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeepseekDefaults {
    pub base_url: String,
    pub flash: String,
    pub pro: String,
}

/// Built-in values of the `agents` tools.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentDefaults {
    pub base_url: String,
    pub model: String,
}

/// What the table says of one model; `None` where it is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Wire format.
    pub wire: Option<Wire>,
    /// Output bound to ask for.
    pub max_output_tokens: Option<u32>,
    /// Output bound that the provider accepts.
    pub output_cap: Option<u32>,
    /// Context window.
    pub context_window: Option<u32>,
    /// Runs on this machine.
    pub local: Option<bool>,
    /// Takes cache marks on the Anthropic wire.
    pub cache_marks: Option<bool>,
}

/// The user's entries before the built-in ones.
#[derive(Clone, Debug)]
pub struct ModelTable {
    user: Vec<Entry>,
    builtin: Vec<Entry>,
    pub(super) deepseek: DeepseekDefaults,
    pub(super) agents: AgentDefaults,
}

impl ModelTable {
    /// The built-in table with the entries of a configuration in front.
    pub(super) fn new(user: Vec<Entry>) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(BUILTIN).map_err(|error| ConfigError::Malformed {
            path: "data/models.toml (built in)".into(),
            cause: error.to_string(),
        })?;
        Ok(ModelTable {
            user,
            builtin: file.models,
            deepseek: file.deepseek,
            agents: file.agents,
        })
    }

    /// What is known of `model`, field by field.
    pub fn facts(&self, model: &str) -> ModelFacts {
        let model = model.to_ascii_lowercase();
        let mut facts = ModelFacts::default();
        for entries in [&self.user, &self.builtin] {
            let mut matching: Vec<(u8, usize, &Entry)> = entries
                .iter()
                .filter_map(|entry| weight(entry, &model).map(|(k, l)| (k, l, entry)))
                .collect();
            // The most telling first; equals keep the order of the file.
            matching.sort_by_key(|(kind, length, _)| std::cmp::Reverse((*kind, *length)));
            for (_, _, entry) in matching {
                facts.wire = facts.wire.or(entry.wire);
                facts.max_output_tokens = facts.max_output_tokens.or(entry.max_output_tokens);
                facts.output_cap = facts.output_cap.or(entry.output_cap);
                facts.context_window = facts.context_window.or(entry.context_window);
                facts.local = facts.local.or(entry.local);
                facts.cache_marks = facts.cache_marks.or(entry.cache_marks);
            }
        }
        facts
    }
}

/// How strongly an entry matches: whole name, then prefix, then suffix, each
/// by length. An entry without any matches nothing; one with several needs all.
fn weight(entry: &Entry, model: &str) -> Option<(u8, usize)> {
    let lower = |text: &Option<String>| text.as_ref().map(|text| text.to_ascii_lowercase());
    let mut best = None;
    if let Some(suffix) = lower(&entry.suffix) {
        if !model.ends_with(&suffix) {
            return None;
        }
        best = Some((0, suffix.len()));
    }
    if let Some(prefix) = lower(&entry.prefix) {
        if !model.starts_with(&prefix) {
            return None;
        }
        best = Some((1, prefix.len()));
    }
    if let Some(name) = lower(&entry.name) {
        if model != name {
            return None;
        }
        best = Some((2, name.len()));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(user: &str) -> ModelTable {
        #[derive(Deserialize)]
        struct User {
            #[serde(default)]
            models: Vec<Entry>,
        }
        let user: User = toml::from_str(user).expect("test table");
        ModelTable::new(user.models).expect("built-in table")
    }

    #[test]
    fn the_wire_follows_the_prefix_ignoring_case() {
        let table = table("");
        for name in [
            "deepseek-v4-flash",
            "GPT-x",
            "qwen-3-8-max",
            "Grok-4",
            "kimi-k",
            "mimo-pro",
            "openai-a",
            "minimax-m3",
            "moonshot-1",
        ] {
            assert_eq!(table.facts(name).wire, Some(Wire::Openai), "{name}");
        }
        for name in [
            "glm-coding-plan",
            "local-qwen-3-6-35b",
            "bedrock-y",
            "ornith",
            "claude-x",
        ] {
            assert_eq!(table.facts(name).wire, Some(Wire::Anthropic), "{name}");
        }
        assert_eq!(table.facts("replay-model"), ModelFacts::default());
    }

    #[test]
    fn whole_names_beat_prefixes_and_prefixes_beat_suffixes() {
        let table = table("");
        let bound = |name: &str| table.facts(name).max_output_tokens;
        assert_eq!(bound("glm-coding-plan"), Some(65_536));
        assert_eq!(bound("glm-coding-plan-max"), Some(131_072));
        assert_eq!(bound("deepseek-v4-flash"), Some(150_000));
        assert_eq!(bound("deepseek-v4-flash-max"), Some(150_000));
        assert_eq!(bound("foo-max"), Some(150_000));
        assert_eq!(bound("qwen-3-8-max-think"), Some(131_072));
        assert_eq!(bound("unknown"), None);
        assert_eq!(table.facts("glm-anything").output_cap, Some(131_072));
    }

    #[test]
    fn an_entry_of_the_user_beats_the_built_in_ones_field_by_field() {
        let table = table(
            "[[models]]\nprefix = \"glm-\"\nwire = \"openai\"\n\
             [[models]]\nprefix = \"house-\"\nlocal = true\ncontext_window = 8192\n",
        );
        let glm = table.facts("glm-coding-plan");
        assert_eq!(glm.wire, Some(Wire::Openai));
        assert_eq!(glm.max_output_tokens, Some(65_536));
        let house = table.facts("house-9b");
        assert_eq!(
            (house.local, house.context_window),
            (Some(true), Some(8_192))
        );
    }
}
