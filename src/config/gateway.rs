//! `DELEGATE_GATEWAY`: the `agents` tools behind LiteLLM (the default) or
//! Bifrost, with a key for each lane of the latter.

use std::collections::BTreeMap;

use secrecy::SecretString;

use super::credential;
use super::env::filled;
use super::error::ConfigError;
use super::url::parse_base;

/// Refuses an unknown gateway, and Bifrost without a usable URL.
pub(super) fn check(env: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    url(env).map(|_| ())
}

/// The endpoint of Bifrost when it is switched on.
pub(super) fn url(env: &BTreeMap<String, String>) -> Result<Option<String>, ConfigError> {
    let name = filled(env, "DELEGATE_GATEWAY").unwrap_or_default();
    match name.trim().to_ascii_lowercase().as_str() {
        "" | "litellm" => return Ok(None),
        "bifrost" => {}
        other => {
            return Err(ConfigError::Gateway {
                variable: "DELEGATE_GATEWAY",
                cause: format!(
                    "must be `litellm` or `bifrost`, and is `{}`",
                    other.escape_debug()
                ),
            });
        }
    }
    let bad = |cause: &str| ConfigError::Gateway {
        variable: "DELEGATE_BIFROST_URL",
        cause: cause.to_owned(),
    };
    let text = filled(env, "DELEGATE_BIFROST_URL")
        .ok_or_else(|| bad("must be set when DELEGATE_GATEWAY is `bifrost`"))?
        .trim()
        .trim_end_matches('/');
    let text = if text.ends_with("/v1/messages") {
        text.to_owned()
    } else if text.ends_with("/litellm") {
        format!("{text}/v1/messages")
    } else {
        format!("{text}/litellm/v1/messages")
    };
    parse_base(&text, "DELEGATE_BIFROST_URL").map_err(|_| bad("must be an http or https URL"))?;
    Ok(Some(text))
}

/// The lane key of a model.
pub(super) fn key(env: &BTreeMap<String, String>, model: &str) -> Option<SecretString> {
    let model = model.to_ascii_lowercase();
    let local = model.starts_with("local-") || model.starts_with("ornith");
    credential::from_env(
        env,
        if local {
            "DELEGATE_BIFROST_VK_LOCAL"
        } else {
            "DELEGATE_BIFROST_VK_CODE"
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn every_form_of_the_bifrost_url_gives_one_endpoint() {
        for form in [
            "http://h:1",
            "http://h:1/",
            "http://h:1/litellm",
            "http://h:1/litellm/",
            "http://h:1/litellm/v1/messages",
        ] {
            let env = env(&[
                ("DELEGATE_GATEWAY", "Bifrost"),
                ("DELEGATE_BIFROST_URL", form),
            ]);
            assert_eq!(
                url(&env).expect(form).as_deref(),
                Some("http://h:1/litellm/v1/messages"),
                "{form}"
            );
        }
    }

    #[test]
    fn a_bad_gateway_stops_the_start_and_names_the_variable() {
        for (pairs, variable) in [
            (&[("DELEGATE_GATEWAY", "kong")][..], "DELEGATE_GATEWAY"),
            (&[("DELEGATE_GATEWAY", "bifrost")], "DELEGATE_BIFROST_URL"),
            (
                &[
                    ("DELEGATE_GATEWAY", "bifrost"),
                    ("DELEGATE_BIFROST_URL", "h:1"),
                ],
                "DELEGATE_BIFROST_URL",
            ),
        ] {
            let error = check(&env(pairs)).expect_err(variable);
            assert!(error.stops_start_up());
            assert!(error.to_string().contains(variable), "{error}");
        }
        assert!(check(&env(&[("DELEGATE_GATEWAY", " ")])).is_ok());
        assert!(check(&env(&[("DELEGATE_GATEWAY", "LiteLLM")])).is_ok());
    }
}
