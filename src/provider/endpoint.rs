//! Addresses: which URL a request goes to, and whether it stays on the machine.

use url::{Host, Url};

use super::Wire;

/// Whether the URL names this machine: `localhost` and below, 127/8, `::1`, and
/// the IPv4 ones written as IPv6.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
        None => false,
    }
}

/// Why a base URL cannot be used; `None` when it can.
pub(crate) fn refuse(base: &Url) -> Option<&'static str> {
    if !matches!(base.scheme(), "http" | "https") {
        return Some("the base URL must begin with http:// or https://");
    }
    if base.host_str().is_none_or(str::is_empty) {
        return Some("the base URL has no host");
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Some(
            "the base URL must not hold a user name or password; give the key by name of its variable",
        );
    }
    None
}

/// The URL that a model call is posted to. A base that is such a URL already is
/// taken as it is, the one of the other wire is turned into ours.
pub(crate) fn call_url(base: &Url, wire: Wire) -> Url {
    let path = base.path().trim_end_matches('/');
    let root = path
        .strip_suffix("/chat/completions")
        .or_else(|| path.strip_suffix("/messages"))
        .unwrap_or(path);
    let path = match wire {
        Wire::Openai => format!("{root}/chat/completions"),
        Wire::Anthropic if root.ends_with("/v1") => format!("{root}/messages"),
        Wire::Anthropic => format!("{root}/v1/messages"),
    };
    with_path(base, &path)
}

/// The URL that lists the models.
pub(crate) fn models_url(base: &Url) -> Url {
    let path = base.path().trim_end_matches('/');
    let root = path
        .strip_suffix("/chat/completions")
        .or_else(|| path.strip_suffix("/messages"))
        .unwrap_or(path);
    let path = match root.ends_with("/v1") || !root.is_empty() {
        true => format!("{root}/models"),
        false => "/v1/models".to_owned(),
    };
    with_path(base, &path)
}

fn with_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// The URL for a message to a person: no user information, no query.
pub(crate) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|p| format!(":{p}")).unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn loopback_is_the_machine_itself() {
        for text in [
            "http://localhost:1/",
            "http://a.localhost",
            "http://127.0.0.2/v1",
            "http://[::1]:8",
            "http://[::ffff:127.0.0.1]",
        ] {
            assert!(is_loopback(&url(text)), "{text}");
        }
        for text in [
            "http://localhost.example",
            "http://128.0.0.1",
            "http://10.0.0.1",
            "https://[::2]",
        ] {
            assert!(!is_loopback(&url(text)), "{text}");
        }
    }

    #[test]
    fn urls_of_both_wires() {
        let table = [
            (
                "http://h:1/v1",
                "http://h:1/v1/chat/completions",
                "http://h:1/v1/messages",
            ),
            (
                "http://h:1/v1/",
                "http://h:1/v1/chat/completions",
                "http://h:1/v1/messages",
            ),
            (
                "http://h:1",
                "http://h:1/chat/completions",
                "http://h:1/v1/messages",
            ),
            (
                "https://h/api/anthropic/v1/messages",
                "https://h/api/anthropic/v1/chat/completions",
                "https://h/api/anthropic/v1/messages",
            ),
            (
                "https://h/api/anthropic",
                "https://h/api/anthropic/chat/completions",
                "https://h/api/anthropic/v1/messages",
            ),
            (
                "https://h/v1/chat/completions?x=1#y",
                "https://h/v1/chat/completions",
                "https://h/v1/messages",
            ),
        ];
        for (base, openai, anthropic) in table {
            assert_eq!(call_url(&url(base), Wire::Openai).as_str(), openai);
            assert_eq!(call_url(&url(base), Wire::Anthropic).as_str(), anthropic);
        }
        assert_eq!(
            models_url(&url("http://h:1/v1")).as_str(),
            "http://h:1/v1/models"
        );
        assert_eq!(
            models_url(&url("http://h:1")).as_str(),
            "http://h:1/v1/models"
        );
    }

    #[test]
    fn what_is_no_base_url_is_refused_and_never_shown_whole() {
        assert!(refuse(&url("ftp://h/")).is_some());
        assert!(refuse(&url("http://me:pw@h/")).is_some());
        assert!(refuse(&url("http://h/")).is_none());
        assert_eq!(shown(&url("http://me:pw@h:8/v1?key=x")), "http://h:8/v1");
    }
}
