//! The provider corpus, played against the binary.

mod replay;

/// The cases that have to pass, each a test of its own.
macro_rules! passes {
    ($($name:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            let name = stringify!($name).replace('_', "-");
            let problems = replay::drive::run(&name);
            assert!(problems.is_empty(), "{name}:\n{}", problems.join("\n"));
        }
    )* };
}

passes!(
    o01_missing_index_finish_stop,
    o02_duplicate_index_distinct_ids,
    o03_id_name_noise_in_continuations,
    o04_invalid_json_escape,
    o05_arguments_object,
    o06_utf8_split_bytes,
    o07_text_hermes_split_deltas,
    o08_text_dsml,
    o09_think_phantom_call,
    o10_reasoning_content_resend,
    o11_sse_noise,
    o12_eof_mid_arguments,
    o13_429_retry_after_seconds,
    o14_200_json_error_body,
    o15_error_object_mid_stream,
    o16_context_overflow,
    o17_400_max_tokens_param,
    o18_length_truncated_arguments,
    o19_unknown_and_wrong_case_tool,
    o20_edit_crlf_bom_nonunique,
    o21_bash_stdin_and_background,
    o22_an_parallel_one_fails,
    o23_an_thinking_signature_resend,
    o24_an_overloaded_mid_stream,
    o25_an_end_turn_with_tool_use,
);

#[test]
fn o26_mcp_progress_and_cancel() {
    let problems = replay::mcp::run("o26");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
