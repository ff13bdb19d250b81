//! Base URLs: what is accepted, what they point at.

use url::{Host, Url};

use super::error::ConfigError;
use super::target::Wire;

/// Parses a base URL: http or https, a host, and none of user information,
/// query, fragment, blanks and control characters. The URL is never part of an
/// error, since it may hold a password.
pub(super) fn parse_base(text: &str, place: &str) -> Result<Url, ConfigError> {
    let refuse = |cause: &str| ConfigError::BadUrl {
        place: place.to_owned(),
        cause: cause.to_owned(),
    };
    // The parser would quietly strip these.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refuse("holds a blank or a control character"));
    }
    let url = Url::parse(text).map_err(|_| refuse("does not parse"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("is neither http nor https"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refuse("has no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("holds user information; give the key by variable"));
    }
    if url.query().is_some() {
        return Err(refuse("has a query"));
    }
    if url.fragment().is_some() {
        return Err(refuse("has a fragment"));
    }
    Ok(url)
}

/// Whether a URL can only reach this machine: `localhost`, 127.0.0.0/8, `::1`
/// and the mapped form of the former.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost")
                || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback()
                || address
                    .to_ipv4_mapped()
                    .is_some_and(|mapped| mapped.is_loopback())
        }
        None => false,
    }
}

/// Turns what a person gave into the base that the wires append to. A full
/// endpoint URL is cut back, and an OpenAI base without any path gets `/v1`.
pub(super) fn for_wire(mut url: Url, wire: Wire) -> Url {
    let path = url.path().trim_end_matches('/').to_owned();
    let cut = ["/chat/completions", "/messages"]
        .iter()
        .find_map(|tail| path.strip_suffix(tail))
        .unwrap_or(&path);
    let path = match (wire, cut) {
        (Wire::Openai, "") => "/v1",
        (_, cut) => cut,
    };
    url.set_path(path);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> Result<Url, ConfigError> {
        parse_base(text, "test")
    }

    #[test]
    fn only_plain_http_urls_are_taken() {
        for good in [
            "http://127.0.0.1:8080/v1",
            "https://api.deepseek.com",
            "http://box.lan/v1",
            "http://[::1]:9/",
        ] {
            assert!(base(good).is_ok(), "{good}");
        }
        for bad in [
            "ftp://host/v1",
            "http://user:pw5ECRET@host/v1",
            "http://user@host/v1",
            "http://host/v1?key=5ECRET",
            "http://host/v1#x",
            "http://ho st/v1",
            " http://host/v1",
            "http://host/v1\n",
            "http://",
            "host/v1",
            "",
        ] {
            let error = base(bad).expect_err(bad);
            assert_eq!(error.code(), "config_bad_url");
            assert!(!error.to_string().contains("5ECRET"), "{error}");
        }
    }

    #[test]
    fn loopback_is_every_way_to_write_this_machine() {
        for (text, expected) in [
            ("http://localhost/", true),
            ("http://LOCALHOST./", true),
            ("http://a.localhost/", true),
            ("http://127.0.0.2/", true),
            ("http://2130706433/", true),
            ("http://[::1]/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://localhost.example.com/", false),
            ("http://10.0.0.1/", false),
            ("http://[::ffff:10.0.0.1]/", false),
            ("http://notlocalhost/", false),
        ] {
            assert_eq!(is_loopback(&base(text).expect(text)), expected, "{text}");
        }
    }

    #[test]
    fn endpoint_urls_are_cut_back_to_their_base() {
        for (text, wire, expected) in [
            ("http://h:1", Wire::Openai, "http://h:1/v1"),
            ("http://h:1/v1", Wire::Openai, "http://h:1/v1"),
            ("http://h:1/v1/", Wire::Openai, "http://h:1/v1"),
            ("http://h/v1/chat/completions", Wire::Openai, "http://h/v1"),
            (
                "https://h/api/anthropic/v1/messages",
                Wire::Openai,
                "https://h/api/anthropic/v1",
            ),
            (
                "https://h/api/paas/v4",
                Wire::Openai,
                "https://h/api/paas/v4",
            ),
            ("http://h:1", Wire::Anthropic, "http://h:1/"),
            ("http://h:1/v1/messages", Wire::Anthropic, "http://h:1/v1"),
            (
                "https://h/anthropic",
                Wire::Anthropic,
                "https://h/anthropic",
            ),
        ] {
            let url = for_wire(base(text).expect(text), wire);
            assert_eq!(url.as_str(), expected, "{text}");
        }
    }
}
