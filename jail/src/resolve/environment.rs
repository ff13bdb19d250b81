//! The environment of a jailed process: from an allow-list, never a secret.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::Note;
use super::files::matches;
use crate::policy::Network;
use crate::profile::{EnvLines, ProfileError, Variables};

/// Parts of a name that say secret. Compared with the words of a name, so that
/// `KEYBOARD` and `AUTHOR` are not taken for one.
const SECRET_WORDS: &[&str] = &[
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PWD",
    "KEY",
    "KEYS",
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "CRED",
    "CREDS",
    "AUTH",
    "COOKIE",
    "COOKIES",
    "PRIVATE",
    "PAT",
    "JWT",
    "BEARER",
    "SESSION",
    "SIGNATURE",
    "DSN",
    "SAS",
];

/// How the values of well-known secrets begin.
const SECRET_VALUES: &[&str] = &[
    "sk-",
    "sk_",
    "rk_",
    "pk_live",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
    "hf_",
    "dop_v1_",
    "-----BEGIN",
];

/// Whether a variable's name says that its value is a secret.
pub(crate) fn secret_name(name: &str) -> bool {
    // The working directory of a shell, which every shell sets anew.
    if name == "PWD" || name == "OLDPWD" {
        return false;
    }
    let upper = name.to_ascii_uppercase();
    upper
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| {
            SECRET_WORDS.contains(&word) || word.ends_with("APIKEY") || word.ends_with("TOKEN")
        })
}

/// Whether a value looks like a secret, whatever its name.
pub(crate) fn secret_value(value: &OsStr) -> bool {
    let text = value.to_string_lossy();
    if SECRET_VALUES.iter().any(|prefix| text.starts_with(prefix)) {
        return true;
    }
    // A user and a password in front of a host.
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        authority
            .rsplit_once('@')
            .is_some_and(|(user, _)| user.contains(':') || user.len() >= 16)
    })
}

/// What a policy's environment is made of.
pub(crate) struct Sources<'a> {
    pub host: &'a [(OsString, OsString)],
    /// What profiles and toolchains ask for, each with its variables.
    pub asked: Vec<(&'a EnvLines, &'a Variables)>,
    pub network: Network,
    /// Set by the resolver: `HOME`, `PATH`, `USER`, ...
    pub fixed: Vec<(&'static str, OsString)>,
    /// Named by a person, one by one.
    pub explicit: &'a [(OsString, OsString)],
}

/// Builds it, sorted by name. Later sources win: the user's variables, what
/// profiles and toolchains set, what the resolver sets, what a person named.
pub(crate) fn build(
    sources: &Sources<'_>,
    notes: &mut Vec<Note>,
) -> Result<Vec<(OsString, OsString)>, ProfileError> {
    let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
    for (name, value) in sources.host {
        let Some(text) = name.to_str() else {
            continue;
        };
        if !sources.asked.iter().any(|(lines, _)| allows(lines, text)) {
            continue;
        }
        if secret_value(value) {
            notes.push(Note {
                code: "secret_suspected",
                text: format!("the variable {text} is not passed: its value looks like a secret (--env {text} passes it)"),
            });
            continue;
        }
        env.insert(name.clone(), value.clone());
    }
    for (lines, vars) in &sources.asked {
        let offline = (sources.network == Network::Off).then_some(&lines.set_offline);
        for (name, line) in lines.set.iter().chain(offline.into_iter().flatten()) {
            env.insert(name.into(), vars.expand(line)?);
        }
    }
    for (name, value) in &sources.fixed {
        env.insert((*name).into(), value.clone());
    }
    for (name, value) in sources.explicit {
        env.insert(name.clone(), value.clone());
    }
    Ok(env.into_iter().collect())
}

/// A name written out is meant; a pattern never matches a name that says
/// secret.
fn allows(lines: &EnvLines, name: &str) -> bool {
    lines.allow.iter().any(|pattern| {
        pattern == name || (pattern.contains('*') && matches(pattern, name) && !secret_name(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Line, Place};

    fn lines(allow: &[&str]) -> EnvLines {
        EnvLines {
            allow: allow.iter().map(|name| (*name).to_owned()).collect(),
            ..EnvLines::default()
        }
    }

    fn built(host: &[(&str, &str)], asked: &EnvLines, network: Network) -> Vec<(String, String)> {
        let host: Vec<_> = host
            .iter()
            .map(|(n, v)| (OsString::from(n), OsString::from(v)))
            .collect();
        let vars = Variables::default();
        let sources = Sources {
            host: &host,
            asked: vec![(asked, &vars)],
            network,
            fixed: vec![("TMPDIR", "/tmp".into())],
            explicit: &[],
        };
        build(&sources, &mut Vec::new())
            .expect("build")
            .into_iter()
            .map(|(n, v)| {
                (
                    n.into_string().expect("utf-8"),
                    v.into_string().expect("utf-8"),
                )
            })
            .collect()
    }

    #[test]
    fn only_listed_names_pass_and_patterns_never_pass_a_secret() {
        let host = [
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("CARGO_TERM_COLOR", "always"),
            ("CARGO_REGISTRY_TOKEN", "abc"),
            ("TMPDIR", "/somewhere"),
            ("REPLAY_SECRET_TOKEN", "replay-1"),
        ];
        let env = built(
            &host,
            &lines(&["LANG", "LC_*", "CARGO_*", "TMPDIR"]),
            Network::Off,
        );
        let names: Vec<_> = env.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["CARGO_TERM_COLOR", "LANG", "LC_ALL", "TMPDIR"]);
        assert_eq!(env[3].1, "/tmp");
    }

    #[test]
    fn a_name_written_out_passes_but_not_with_a_value_that_looks_secret() {
        let asked = lines(&["MY_TOKEN", "PIP_INDEX_URL", "PIP_FIND_LINKS"]);
        let host = [
            ("MY_TOKEN", "meant"),
            ("PIP_INDEX_URL", "https://me:hunter2@host/simple"),
            ("PIP_FIND_LINKS", "https://host/simple"),
        ];
        let names: Vec<_> = built(&host, &asked, Network::Off)
            .into_iter()
            .map(|(n, _)| n)
            .collect();
        assert_eq!(names, ["MY_TOKEN", "PIP_FIND_LINKS", "TMPDIR"]);
    }

    #[test]
    fn what_is_set_for_no_network_is_set_only_then() {
        let mut asked = lines(&[]);
        asked.set_offline.push((
            "CARGO_NET_OFFLINE".to_owned(),
            Line {
                text: "true".to_owned(),
                at: Place::request(),
                source: String::new(),
            },
        ));
        assert_eq!(built(&[], &asked, Network::Off).len(), 2);
        assert_eq!(built(&[], &asked, Network::Open).len(), 1);
    }

    #[test]
    fn names_and_values_of_secrets_are_told_from_plain_ones() {
        for name in [
            "GH_TOKEN",
            "OPENAI_API_KEY",
            "DB_PASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "MYSQL_PWD",
            "myapikey",
            "NPM_AUTH",
        ] {
            assert!(secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "PWD",
            "KEYBOARD",
            "AUTHOR",
            "LC_ALL",
            "MONKEY",
            "PASSENGER",
            "CARGO_HOME",
        ] {
            assert!(!secret_name(name), "{name}");
        }
        for value in [
            "ghp_x",
            "sk-abc",
            "http://u:p@h/",
            "a b https://averylongtokenvalue@h",
        ] {
            assert!(secret_value(value.as_ref()), "{value}");
        }
        for value in [
            "https://h/a:b@c",
            "C.UTF-8",
            "git@host",
            "https://git@host/x",
        ] {
            assert!(!secret_value(value.as_ref()), "{value}");
        }
    }
}
