//! A failure as a sentence for a person: what, what the provider said, a way out.

use std::time::Duration;

use super::errors::Failure;
use super::mask::mask;
use super::{Endpoint, ErrorClass, endpoint};

/// Characters of the provider's own words.
const MOST: usize = 300;

/// The text of an error. Everything foreign in it is masked before it is cut,
/// so that no cut leaves half a key.
pub(crate) fn text(
    failure: &Failure,
    endpoint: &Endpoint,
    attempts: u32,
    too_long: Option<Duration>,
) -> String {
    let mut text = title(failure.class).to_owned();
    if let Some(status) = failure.status {
        text.push_str(&format!(" (HTTP {status})"));
    }
    let said = one_line(&mask(&failure.message, endpoint.key.as_ref()));
    if !said.is_empty() {
        text.push_str(": ");
        text.push_str(&cut(&said));
    }
    if let Some(wait) = too_long {
        text.push_str(&format!("; the server asks to wait {} s", wait.as_secs()));
    }
    if attempts > 1 {
        text.push_str(&format!("; {attempts} requests were made"));
    }
    let place = format!(
        "{} for model {}",
        endpoint::shown(&endpoint.base_url),
        endpoint.model
    );
    let advice = match failure.class {
        ErrorClass::Auth => format!("; check the key for {place}"),
        ErrorClass::Quota => "; this account or plan has nothing left".to_owned(),
        ErrorClass::BadRequest if failure.status == Some(404) => {
            format!(
                "; check base URL and model name ({place}); many servers want /v1 at the end of the base URL"
            )
        }
        ErrorClass::Transport => format!(
            "; is the server at {} up?",
            endpoint::shown(&endpoint.base_url)
        ),
        ErrorClass::ContextOverflow => {
            "; give a smaller task, or a model with a larger window".to_owned()
        }
        _ => String::new(),
    };
    text.push_str(&mask(&advice, endpoint.key.as_ref()));
    text
}

fn title(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Auth => "the provider refuses the key",
        ErrorClass::Quota => "the provider's quota is used up",
        ErrorClass::RateLimit => "the provider limits the rate of requests",
        ErrorClass::Overloaded => "the provider is overloaded",
        ErrorClass::ContextOverflow => "the conversation does not fit the model's window",
        ErrorClass::BadRequest => "the provider refuses the request",
        ErrorClass::UpstreamError => "the provider failed",
        ErrorClass::Transport => "the connection to the provider failed",
        ErrorClass::Protocol => "the provider's answer cannot be read",
        ErrorClass::EmptyResponse => "the model answered nothing",
        _ => "the model call failed",
    }
}

fn one_line(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::provider::Wire;

    fn endpoint() -> Endpoint {
        Endpoint {
            base_url: "http://127.0.0.1:1/v1".parse().unwrap(),
            wire: Wire::Openai,
            model: "m".into(),
            key: Some(SecretString::from("hunter2hunter2")),
            extra_body: serde_json::Map::new(),
        }
    }

    #[test]
    fn says_what_and_never_the_key() {
        let mut failure = Failure::new(ErrorClass::Auth, "bad key\nhunter2hunter2");
        failure.status = Some(401);
        let text = text(&failure, &endpoint(), 1, None);
        assert_eq!(
            text,
            "the provider refuses the key (HTTP 401): bad key ***; check the key for http://127.0.0.1:1/v1 for model m"
        );
    }

    #[test]
    fn a_key_at_the_cut_is_masked_whole() {
        let message = format!("{}hunter2hunter2", "x ".repeat(146));
        let failure = Failure::new(ErrorClass::RateLimit, message);
        let text = text(&failure, &endpoint(), 3, Some(Duration::from_secs(90)));
        assert!(!text.contains("hunter"), "{text}");
        assert!(
            text.ends_with("; the server asks to wait 90 s; 3 requests were made"),
            "{text}"
        );
    }
}
