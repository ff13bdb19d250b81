//! Changing a request that a server refused for one of its parameters.
//!
//! Each change is made once and kept for the client's life; the same body is
//! never sent again.

use serde_json::{Map, Value};

use super::ErrorClass;
use super::errors::Failure;
use super::resend::Resend;

/// What was learnt about a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adapted {
    /// `max_completion_tokens` instead of `max_tokens`.
    pub completion_bound: bool,
    /// Largest output bound that it takes.
    pub most_output: Option<u32>,
    /// Parameters that it does not take.
    pub dropped: Vec<String>,
    /// It takes no images.
    pub no_images: bool,
    /// What it says of reasoning that goes back.
    pub resend: Option<Resend>,
    swapped: bool,
}

const BOUNDS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Keys without which a request is none.
const CORE: [&str; 8] = [
    "model",
    "messages",
    "tools",
    "stream",
    "system",
    "response_format",
    BOUNDS[0],
    BOUNDS[1],
];

/// Words that refuse a parameter as such.
const REFUSES: [&str; 10] = [
    "unsupported",
    "not supported",
    "unknown",
    "unrecognized",
    "unexpected",
    "not permitted",
    "not allowed",
    "extraneous",
    "extra inputs",
    "invalid",
];

/// Words that refuse its value as too large.
const TOO_LARGE: [&str; 7] = [
    "range",
    "at most",
    "less than",
    "too large",
    "maximum",
    "exceed",
    "<=",
];

impl Adapted {
    /// Changes what the failure names; false when it names nothing of ours.
    pub fn learn(&mut self, failure: &Failure, body: &Map<String, Value>) -> bool {
        if failure.class != ErrorClass::BadRequest {
            return false;
        }
        let text = failure.message.to_lowercase();
        let named = |key: &str| failure.param.as_deref() == Some(key) || has_word(&text, key);
        self.learn_bound(&text, &named, body)
            || self.learn_reasoning(&text, body)
            || self.learn_images(&text, body)
            || self.learn_drop(failure, &text, body)
    }

    fn learn_bound(
        &mut self,
        text: &str,
        named: &dyn Fn(&str) -> bool,
        body: &Map<String, Value>,
    ) -> bool {
        let Some(key) = BOUNDS.into_iter().find(|key| body.contains_key(*key)) else {
            return false;
        };
        if !named(key) {
            return false;
        }
        let refused =
            REFUSES[..9].iter().any(|word| text.contains(word)) || text.contains("instead");
        if !refused
            && self.most_output.is_none()
            && TOO_LARGE.iter().any(|word| text.contains(word))
        {
            let sent = body[key].as_u64().unwrap_or(0);
            // A range names its ends, a refusal also the value that was sent.
            self.most_output = numbers(text)
                .filter(|n| (256..sent).contains(n))
                .max()
                .and_then(|n| n.try_into().ok());
            return self.most_output.is_some();
        }
        if refused && !self.swapped {
            self.swapped = true;
            self.completion_bound = key == BOUNDS[0];
            return true;
        }
        false
    }

    fn learn_reasoning(&mut self, text: &str, body: &Map<String, Value>) -> bool {
        if self.resend.is_some()
            || !["reasoning_content", "reasoning_details"]
                .iter()
                .any(|w| text.contains(w))
        {
            return false;
        }
        let sent = messages(body).any(|m| {
            m.as_object()
                .is_some_and(|m| m.keys().any(|key| key.starts_with("reasoning")))
        });
        self.resend = Some(if sent { Resend::Never } else { Resend::Always });
        // Only worth a request where there was reasoning to send or leave out.
        sent || messages(body).any(|m| m.get("role").and_then(Value::as_str) == Some("assistant"))
    }

    fn learn_images(&mut self, text: &str, body: &Map<String, Value>) -> bool {
        let has_image = |m: &Value| {
            let parts = m.get("content").and_then(Value::as_array);
            parts.is_some_and(|parts| parts.iter().any(|p| p.to_string().contains("\"image")))
        };
        if self.no_images || !text.contains("image") || !messages(body).any(has_image) {
            return false;
        }
        self.no_images = true;
        true
    }

    fn learn_drop(&mut self, failure: &Failure, text: &str, body: &Map<String, Value>) -> bool {
        let refused = REFUSES.iter().any(|word| text.contains(word));
        let key = body
            .keys()
            .filter(|key| !CORE.contains(&key.as_str()))
            .find(|key| {
                let param = failure.param.as_deref().unwrap_or_default();
                param == key.as_str()
                    || param.starts_with(&format!("{key}."))
                    || (refused && has_word(text, key))
            });
        match key {
            Some(key) => {
                self.dropped.push(key.clone());
                true
            }
            None => false,
        }
    }
}

fn messages(body: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    body.get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::errors;

    fn body(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn learn(adapted: &mut Adapted, error: Value, sent: Value) -> bool {
        let failure = errors::from_status(400, json!({"error": error}).to_string().as_bytes());
        adapted.learn(&failure, &body(sent))
    }

    #[test]
    fn the_bound_is_swapped_once_in_either_direction() {
        let mut adapted = Adapted::default();
        let error = json!({"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "param": "max_tokens", "code": "unsupported_parameter"});
        assert!(learn(&mut adapted, error.clone(), json!({"max_tokens": 5})));
        assert!(adapted.completion_bound);
        let mirror = json!({"message": "max_completion_tokens: Extra inputs are not permitted"});
        assert!(!learn(
            &mut adapted,
            mirror.clone(),
            json!({"max_completion_tokens": 5})
        ));
        let mut adapted = Adapted {
            completion_bound: true,
            ..Adapted::default()
        };
        assert!(learn(
            &mut adapted,
            mirror,
            json!({"max_completion_tokens": 5})
        ));
        assert!(!adapted.completion_bound);
    }

    #[test]
    fn a_range_is_read_once() {
        let mut adapted = Adapted::default();
        let error = json!({"message": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"});
        let failure = errors::from_status(400, json!({"error": error}).to_string().as_bytes());
        assert!(adapted.learn(&failure, &body(json!({"max_tokens": 16384}))));
        assert_eq!(adapted.most_output, Some(8192));
        assert!(!adapted.learn(&failure, &body(json!({"max_tokens": 8192}))));
    }

    #[test]
    fn an_optional_parameter_is_dropped_and_a_needed_one_is_not() {
        let mut adapted = Adapted::default();
        let sent =
            json!({"model": "m", "messages": [], "stream_options": {}, "reasoning_effort": "high"});
        assert!(learn(
            &mut adapted,
            json!({"message": "Unrecognized request argument supplied: stream_options"}),
            sent.clone()
        ));
        assert!(learn(
            &mut adapted,
            json!({"message": "bad", "param": "reasoning_effort"}),
            sent.clone()
        ));
        assert_eq!(adapted.dropped, ["stream_options", "reasoning_effort"]);
        assert!(!learn(
            &mut adapted,
            json!({"message": "model: unknown", "param": "model"}),
            sent.clone()
        ));
        assert!(!learn(
            &mut adapted,
            json!({"message": "something else"}),
            sent
        ));
    }

    #[test]
    fn reasoning_is_sent_or_kept_back_as_the_server_says() {
        let error = json!({"message": "The `reasoning_content` in the thinking mode must be passed back to the API."});
        let mut adapted = Adapted::default();
        assert!(learn(
            &mut adapted,
            error.clone(),
            json!({"messages": [{"role": "assistant"}]})
        ));
        assert_eq!(adapted.resend, Some(Resend::Always));
        assert!(!learn(
            &mut adapted,
            error,
            json!({"messages": [{"role": "assistant"}]})
        ));
        let mut adapted = Adapted::default();
        let error = json!({"message": "property 'reasoning_content' is unsupported"});
        assert!(learn(
            &mut adapted,
            error,
            json!({"messages": [{"role": "assistant", "reasoning_content": "x"}]})
        ));
        assert_eq!(adapted.resend, Some(Resend::Never));
    }

    #[test]
    fn images_go_when_they_are_the_trouble() {
        let error = json!({"message": "unknown variant `image_url`, expected `text`"});
        let with = json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]});
        assert!(!learn(
            &mut Adapted::default(),
            error.clone(),
            json!({"messages": [{"role": "user", "content": "x"}]})
        ));
        assert!(learn(&mut Adapted::default(), error, with));
    }
}
