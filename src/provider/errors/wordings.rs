//! The words by which providers say the same things.
//!
//! Each row was written down after a public report or a server's own source;
//! `tests.rs` has the sentences.

use crate::provider::ErrorClass;

/// A throttle, even where it speaks of tokens.
const THROTTLE: &[&str] = &["throttling", "too many tokens, please wait", "slow down"];

/// Money or plan used up. Waiting a moment does not help.
const QUOTA: &[&str] = &[
    "insufficient balance",
    "insufficient_balance",
    "insufficient_quota",
    "insufficient quota",
    "insufficient credits",
    "insufficient funds",
    "exceeded your current quota",
    "credit balance is too low",
    "billing_error",
    "billing_hard_limit",
    "billing hard limit",
    "usage limit reached",
    "usage_limit_reached",
    "usage limit has been reached",
    "payment required",
    "plan has expired",
    "quota_exceeded",
    "out of credits",
];

/// Z.ai: balance, account in arrears, plan window, plan expired, week or month.
const QUOTA_CODES: &[&str] = &["1113", "1308", "1309", "1310", "1008"];

const AUTH: &[&str] = &[
    "authentication_error",
    "permission_error",
    "permission_denied",
    "invalid_api_key",
    "invalid api key",
    "incorrect api key",
    "unauthorized",
    "unauthenticated",
    "key_model_access_denied",
    "invalid authentication",
    "no api key",
    "api key not valid",
    "token_not_found",
];

/// Z.ai and MiniMax: no key, wrong key, expired token.
const AUTH_CODES: &[&str] = &["1000", "1001", "1002", "1003", "1004", "401", "403"];

/// The conversation does not fit.
const OVERFLOW: &[&str] = &[
    "exceed_context_size",
    "context_length_exceeded",
    "contextwindowexceeded",
    "context_window_exceeded",
    "model_context_window_exceeded",
    "maximum context length",
    "available context size",
    "context window",
    "context length",
    "context size",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input length and `max_tokens` exceed",
    "reduce the length of the messages",
    "reduce the length of the prompt",
    "total message size",
    "request_too_large",
    "exceeds the maximum number of tokens",
    "input token count exceeds",
    "tokens exceed",
    // Ollama, after it cut the prompt in silence.
    "no user query found in messages",
];

const RATE: &[&str] = &[
    "rate_limit",
    "rate limit",
    "ratelimit",
    "too many requests",
    "resource_exhausted",
    "high concurrency",
    "high frequency",
    "concurrency limit",
    "requests per minute",
    "tokens per minute",
];

const RATE_CODES: &[&str] = &["1302", "1303", "1304", "1305", "429"];

const OVERLOAD: &[&str] = &[
    "overloaded",
    "over capacity",
    "at capacity",
    "insufficient_system_resource",
    "server is busy",
    "service unavailable",
    "loading model",
    "temporarily unavailable",
];

const REFUSED: &[&str] = &[
    "invalid_request",
    "not_found",
    "model_not_found",
    "bad_request",
    "badrequest",
    "unsupported_parameter",
    "unsupported_value",
    "invalid_argument",
    "unprocessable",
    "failed to parse grammar",
];

/// The class of an error by status, kind, code and message.
pub(super) fn class(status: Option<u16>, kind: &str, code: &str, message: &str) -> ErrorClass {
    let text = format!("{kind} {code} {message}").to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let coded = |codes: &[&str]| codes.contains(&code);
    let client = matches!(status, Some(400..=499)) && status != Some(408);

    if says(THROTTLE) {
        return ErrorClass::RateLimit;
    }
    // A gateway that gives up wraps the last answers of what stood behind it:
    // the code is a word of its message then.
    let wrapped = !client && QUOTA_CODES.iter().any(|c| has_word(&text, c));
    if status == Some(402) || says(QUOTA) || coded(QUOTA_CODES) || wrapped {
        return ErrorClass::Quota;
    }
    if matches!(status, Some(401 | 403)) || says(AUTH) || coded(AUTH_CODES) {
        return ErrorClass::Auth;
    }
    // Not under 429: a limit of tokens per minute says "context" in some texts.
    if status == Some(413) || (status != Some(429) && says(OVERFLOW)) {
        return ErrorClass::ContextOverflow;
    }
    if status == Some(429) || says(RATE) || coded(RATE_CODES) {
        return ErrorClass::RateLimit;
    }
    if matches!(status, Some(503 | 529)) || says(OVERLOAD) {
        return ErrorClass::Overloaded;
    }
    match status {
        Some(408 | 425) => ErrorClass::UpstreamError,
        Some(400..=499) => ErrorClass::BadRequest,
        Some(500..=599) if says(&["failed to parse grammar"]) => ErrorClass::BadRequest,
        Some(500..=599) => ErrorClass::UpstreamError,
        Some(_) => ErrorClass::Protocol,
        None if says(REFUSED) => ErrorClass::BadRequest,
        None => ErrorClass::UpstreamError,
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(|c| c.is_ascii_alphanumeric())
            && !after.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}
