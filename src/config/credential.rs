//! Which key goes to which host, for the `deepseek` tools, and how a reasoning
//! effort is written in a request.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use url::Url;

use super::error::ConfigError;
use super::url::is_loopback;

/// Sent where a server wants no key and a client library needs one.
const DUMMY: &str = "local-no-auth";
/// What the installer of the old system wrote in the place of a key.
const PLACEHOLDER: &str = "PASTE_YOUR_DEEPSEEK_KEY_HERE";

/// How much a model is asked to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reasoning {
    /// Nothing is sent.
    #[default]
    ProviderDefault,
    /// Thinking off.
    None,
    /// `low`.
    Low,
    /// `high`.
    High,
    /// `max`.
    Max,
}

impl Reasoning {
    /// The words of the configuration, in the order in which errors list them.
    pub const WORDS: [&str; 5] = ["provider-default", "none", "low", "high", "max"];

    /// The effort called `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "provider-default" => Reasoning::ProviderDefault,
            "none" => Reasoning::None,
            "low" => Reasoning::Low,
            "high" => Reasoning::High,
            "max" => Reasoning::Max,
            _ => return None,
        })
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Reasoning::ProviderDefault => "provider-default",
            Reasoning::None => "none",
            Reasoning::Low => "low",
            Reasoning::High => "high",
            Reasoning::Max => "max",
        }
    }

    /// The keys that it adds to a request body.
    pub fn body(self, url: &Url) -> Map<String, Value> {
        let mut keys = Map::new();
        let deepseek = is_deepseek_host(url);
        match self {
            Reasoning::ProviderDefault => {}
            Reasoning::None if deepseek => {
                keys.insert("thinking".to_owned(), json!({"type": "disabled"}));
            }
            effort => {
                keys.insert("reasoning_effort".to_owned(), json!(effort.word()));
                if deepseek {
                    keys.insert("thinking".to_owned(), json!({"type": "enabled"}));
                }
            }
        }
        keys
    }
}

/// Whether a host is `deepseek.com` or below it.
pub fn is_deepseek_host(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        host == "deepseek.com" || host.ends_with(".deepseek.com")
    })
}

/// The value of a variable as a key: trimmed, and none when nothing is left.
pub(super) fn from_env(env: &BTreeMap<String, String>, name: &str) -> Option<SecretString> {
    usable(env.get(name)?)
}

fn usable(text: &str) -> Option<SecretString> {
    let text = text.trim();
    (!text.is_empty() && text != PLACEHOLDER).then(|| SecretString::from(text.to_owned()))
}

/// Chooses the credential for the `deepseek` tools. A key of DeepSeek never
/// travels in the clear, nor to a host of somebody else.
pub(super) fn choose(
    url: &Url,
    env: &BTreeMap<String, String>,
    file_key: Option<&SecretString>,
) -> Result<SecretString, ConfigError> {
    use secrecy::ExposeSecret;

    let openai = from_env(env, "OPENAI_API_KEY");
    if url.scheme() == "http" || is_loopback(url) {
        return Ok(openai.unwrap_or_else(|| SecretString::from(DUMMY.to_owned())));
    }
    let file_key = file_key.and_then(|key| usable(key.expose_secret()));
    let (key, remedy) = if is_deepseek_host(url) {
        (
            from_env(env, "DEEPSEEK_API_KEY").or(openai).or(file_key),
            "set DEEPSEEK_API_KEY, or api_key in ~/.deepseek-mcp/config.json",
        )
    } else {
        (
            openai.or(file_key),
            "set OPENAI_API_KEY, or api_key in ~/.deepseek-mcp/config.json; \
             DEEPSEEK_API_KEY goes to deepseek.com only",
        )
    };
    key.ok_or_else(|| ConfigError::KeyMissing {
        host: url.host_str().unwrap_or_default().to_owned(),
        remedy: format!("{remedy}."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn pick(url: &str, env: &[(&str, &str)], file: Option<&str>) -> Result<String, ConfigError> {
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let file = file.map(|key| SecretString::from(key.to_owned()));
        choose(&Url::parse(url).expect("url"), &env, file.as_ref())
            .map(|key| key.expose_secret().to_owned())
    }

    const D: (&str, &str) = ("DEEPSEEK_API_KEY", "d");
    const O: (&str, &str) = ("OPENAI_API_KEY", "o");

    #[test]
    fn in_the_clear_only_the_openai_variable_or_a_dummy_is_sent() {
        for url in [
            "http://127.0.0.1:1/v1",
            "http://box.lan/v1",
            "http://api.deepseek.com",
            "https://localhost/v1",
            "https://127.9.9.9/v1",
        ] {
            assert_eq!(pick(url, &[D], Some("k")).as_deref(), Ok(DUMMY), "{url}");
            assert_eq!(pick(url, &[D, O], Some("k")).as_deref(), Ok("o"), "{url}");
        }
    }

    #[test]
    fn deepseek_takes_its_own_key_first() {
        let url = "https://api.deepseek.com";
        assert_eq!(pick(url, &[O, D], Some("k")).as_deref(), Ok("d"));
        assert_eq!(pick(url, &[O], Some("k")).as_deref(), Ok("o"));
        assert_eq!(pick(url, &[], Some(" k ")).as_deref(), Ok("k"));
        assert_eq!(
            pick(url, &[("DEEPSEEK_API_KEY", " ")], Some("k")).as_deref(),
            Ok("k")
        );
        assert_eq!(
            pick(url, &[], Some(PLACEHOLDER))
                .expect_err("placeholder")
                .code(),
            "config_key_missing"
        );
    }

    #[test]
    fn another_host_never_gets_the_deepseek_variable() {
        for url in [
            "https://example.com/v1",
            "https://evildeepseek.com",
            "https://deepseek.com.evil.org",
        ] {
            assert_eq!(pick(url, &[D, O], Some("k")).as_deref(), Ok("o"), "{url}");
            assert_eq!(pick(url, &[D], Some("k")).as_deref(), Ok("k"), "{url}");
            assert!(pick(url, &[D], None).is_err(), "{url}");
        }
    }

    #[test]
    fn reasoning_is_written_as_each_host_wants_it() {
        let deepseek = Url::parse("https://api.deepseek.com").expect("url");
        let other = Url::parse("http://127.0.0.1/v1").expect("url");
        let body = |effort: Reasoning, url: &Url| Value::Object(effort.body(url));
        for url in [&deepseek, &other] {
            assert_eq!(body(Reasoning::ProviderDefault, url), json!({}));
        }
        assert_eq!(
            body(Reasoning::None, &deepseek),
            json!({"thinking": {"type": "disabled"}})
        );
        assert_eq!(
            body(Reasoning::None, &other),
            json!({"reasoning_effort": "none"})
        );
        assert_eq!(
            body(Reasoning::High, &deepseek),
            json!({"reasoning_effort": "high", "thinking": {"type": "enabled"}})
        );
        assert_eq!(
            body(Reasoning::Max, &other),
            json!({"reasoning_effort": "max"})
        );
    }
}
