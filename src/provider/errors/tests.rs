use proptest::prelude::*;

use super::*;

fn status(code: u16, body: &str) -> ErrorClass {
    from_status(code, body.as_bytes()).class
}

fn object(body: &str) -> Option<ErrorClass> {
    from_value(&serde_json::from_str(body).unwrap()).map(|f| f.class)
}

#[test]
fn bodies_under_an_error_status() {
    use ErrorClass as C;
    let table: &[(u16, &str, C)] = &[
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            C::Auth,
        ),
        (403, "", C::Auth),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
            C::Quota,
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit reached for requests","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#,
            C::RateLimit,
        ),
        (
            429,
            r#"{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}"#,
            C::Quota,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            C::Quota,
        ),
        (
            429,
            r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-08-27 21:31:39"}}"#,
            C::Quota,
        ),
        (
            429,
            r#"{"error":{"code":"1302","message":"High concurrency usage"}}"#,
            C::RateLimit,
        ),
        (
            502,
            r#"{"error":{"message":"All variants failed: 429 code 1308, then 403"}}"#,
            C::Quota,
        ),
        (
            502,
            "<html><body>502 Bad Gateway</body></html>",
            C::UpstreamError,
        ),
        (
            503,
            "<html>\n<h1>503 Service Temporarily Unavailable</h1></html>",
            C::Overloaded,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            C::Overloaded,
        ),
        (500, "", C::UpstreamError),
        (504, "upstream timed out", C::UpstreamError),
        (408, "", C::UpstreamError),
        (
            404,
            r#"{"error":{"message":"model 'x' not found"}}"#,
            C::BadRequest,
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens'","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}"#,
            C::BadRequest,
        ),
        (
            422,
            r#"{"detail":[{"loc":["body","x"],"msg":"Extra inputs are not permitted"}]}"#,
            C::BadRequest,
        ),
        (413, "", C::ContextOverflow),
        (
            400,
            r#"{"error":{"code":400,"message":"request (124071 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error"}}"#,
            C::ContextOverflow,
        ),
        (
            400,
            r#"{"error":{"message":"litellm.ContextWindowExceededError: x","type":"invalid_request_error","param":null,"code":"400"}}"#,
            C::ContextOverflow,
        ),
        (
            400,
            r#"{"message":"This model's maximum context length is 262144 tokens. However, you requested 0 output tokens"}"#,
            C::ContextOverflow,
        ),
        (
            400,
            r#"{"error":"Please reduce the length of the messages"}"#,
            C::ContextOverflow,
        ),
        (
            400,
            r#"{"error":{"message":"total message size 10176584 exceeds limit 2097152"}}"#,
            C::ContextOverflow,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            C::ContextOverflow,
        ),
        (
            500,
            r#"{"error":"no user query found in messages"}"#,
            C::ContextOverflow,
        ),
        (
            400,
            r#"{"message":"ThrottlingException: Too many tokens, please wait before trying again."}"#,
            C::RateLimit,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
            C::Quota,
        ),
        (
            400,
            r#"{"error":"Failed to initialize samplers: failed to parse grammar"}"#,
            C::BadRequest,
        ),
        (302, "", C::Protocol),
    ];
    for (code, body, want) in table {
        assert_eq!(status(*code, body), *want, "{code} {body}");
    }
}

#[test]
fn objects_under_status_200() {
    use ErrorClass as C;
    let table: &[(&str, Option<C>)] = &[
        (
            r#"{"error":{"code":"1302","message":"High concurrency usage of this API"}}"#,
            Some(C::RateLimit),
        ),
        (
            r#"{"error":{"code":500,"message":"Failed to parse input at pos 668: <tool_call>","type":"server_error"}}"#,
            Some(C::UpstreamError),
        ),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Some(C::Overloaded),
        ),
        (
            r#"{"type":"error","error":{"type":"authentication_error","message":"x"}}"#,
            Some(C::Auth),
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"x"}}"#,
            Some(C::BadRequest),
        ),
        (
            r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"},"choices":null}"#,
            Some(C::Quota),
        ),
        (
            r#"{"base_resp":{"status_code":0,"status_msg":"success"},"choices":[]}"#,
            None,
        ),
        (r#"{"error":"boom"}"#, Some(C::UpstreamError)),
        (
            r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
            Some(C::BadRequest),
        ),
        (r#"{"error":null,"choices":[]}"#, None),
        (
            r#"{"error":{"code":400,"type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}"#,
            Some(C::ContextOverflow),
        ),
        (r#"{"choices":[],"usage":null}"#, None),
        (r#"{"type":"ping"}"#, None),
        (
            r#"[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}]"#,
            Some(C::RateLimit),
        ),
    ];
    for (body, want) in table {
        assert_eq!(object(body), *want, "{body}");
    }
}

#[test]
fn the_message_is_kept_and_pages_are_stripped() {
    let failure = from_status(
        429,
        br#"{"error":{"code":"1308","message":"Usage limit reached. Reset at 21:31"}}"#,
    );
    assert_eq!(
        failure.message,
        "Usage limit reached. Reset at 21:31 (1308)"
    );
    assert_eq!(failure.again, Again::No);
    let page = from_status(
        503,
        b"<html><head><title>503 Down</title></head><body><p>Try later</p></body></html>",
    );
    assert_eq!(page.message, "503 Down Try later");
    assert_eq!(page.again, Again::Yes);
    assert_eq!(
        from_status(400, br#"{"error":{"message":"m","param":"max_tokens"}}"#)
            .param
            .as_deref(),
        Some("max_tokens")
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(code in 100u16..600, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        from_status(code, &bytes);
    }
}
