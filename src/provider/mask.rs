//! Keys never leave in a text.

use secrecy::{ExposeSecret, SecretString};

/// What stands where a secret stood.
const MASK: &str = "***";

/// Beginnings of tokens that are masked wherever they stand, known key or not.
const PREFIXES: [&str; 9] = [
    "sk-", "sk_", "pk-", "gsk_", "xai-", "ghp_", "hf_", "AIza", "eyJ",
];

/// Shorter runs after a prefix are words, not keys.
const SHORTEST: usize = 10;

/// `text` without the key, without what looks like a key, and without the user
/// information of URLs.
pub(crate) fn mask(text: &str, key: Option<&SecretString>) -> String {
    let mut text = text.to_owned();
    if let Some(key) = key {
        let plain = key.expose_secret().trim();
        // A key of two or three letters would mask ordinary words.
        if plain.len() >= 4 {
            text = text.replace(plain, MASK);
        }
    }
    mask_user_info(&mask_tokens(&text))
}

fn mask_tokens(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before_is_token = false;
    'scan: while let Some(c) = rest.chars().next() {
        if !before_is_token {
            for prefix in PREFIXES {
                if let Some(tail) = rest.strip_prefix(prefix) {
                    let length = token_length(tail);
                    if length >= SHORTEST {
                        out.push_str(MASK);
                        rest = &tail[length..];
                        continue 'scan;
                    }
                }
            }
            for word in ["Bearer ", "bearer "] {
                if let Some(tail) = rest.strip_prefix(word) {
                    let length = token_length(tail);
                    if length >= SHORTEST {
                        out.push_str(word);
                        out.push_str(MASK);
                        rest = &tail[length..];
                        continue 'scan;
                    }
                }
            }
        }
        before_is_token = is_token(c);
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

fn mask_user_info(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c == '/' || c == '?' || c.is_whitespace() || c == '"')
            .unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(sign) => {
                out.push_str(MASK);
                rest = &after[sign..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// Length of the run of token characters; stars count, as providers print keys
/// with their middle starred and the ends in clear.
fn token_length(text: &str) -> usize {
    text.find(|c: char| !(is_token(c) || matches!(c, '.' | '*' | '+' | '/' | '=')))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_and_words_stay() {
        let key = SecretString::from("hunter2hunter2");
        assert_eq!(mask("bad key hunter2hunter2!", Some(&key)), "bad key ***!");
        assert_eq!(
            mask("Incorrect API key: sk-replay-5ECRET-0001.", None),
            "Incorrect API key: ***"
        );
        assert_eq!(mask("key sk-abcd****wxyz1 given", None), "key *** given");
        assert_eq!(mask("Bearer abcdefghijkl", None), "Bearer ***");
        assert_eq!(
            mask("the task-list of a desk-lamp", None),
            "the task-list of a desk-lamp"
        );
        assert_eq!(mask("sk-1", None), "sk-1");
    }

    #[test]
    fn user_information_of_urls_goes() {
        assert_eq!(
            mask("at http://me:pw@host/v1?x", None),
            "at http://***@host/v1?x"
        );
        assert_eq!(mask("at http://host/a@b", None), "at http://host/a@b");
    }
}
