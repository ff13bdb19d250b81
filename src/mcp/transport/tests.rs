use super::*;

fn refused(line: &str) -> (Value, i64) {
    match read_message(line.as_bytes()) {
        Read::Refused(answer) => (
            answer["id"].clone(),
            answer["error"]["code"].as_i64().unwrap_or_default(),
        ),
        Read::Message(message) => panic!("taken as a message: {message:?}"),
        Read::Nothing => panic!("passed over"),
    }
}

#[test]
fn a_line_that_is_not_json_is_answered_and_a_good_one_is_taken() {
    assert_eq!(refused("{\"jsonrpc\":"), (Value::Null, PARSE_ERROR));
    assert_eq!(refused("hello"), (Value::Null, PARSE_ERROR));
    assert!(matches!(
        read_message(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
        Read::Message(_)
    ));
}

#[test]
fn an_id_is_answered_even_where_the_parameters_cannot_be_read() {
    let line = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\ud800"}}"#;
    let (id, _) = refused(line);
    assert_eq!(id, json!(7));
}

#[test]
fn what_is_json_but_no_message_is_an_invalid_request() {
    assert_eq!(refused("[]"), (Value::Null, INVALID_REQUEST));
    assert_eq!(refused("3"), (Value::Null, INVALID_REQUEST));
    assert_eq!(refused(r#"{"id":"a"}"#), (json!("a"), INVALID_REQUEST));
}

#[test]
fn blank_lines_and_odd_notifications_get_no_answer() {
    assert!(matches!(read_message(b"  \r\n"), Read::Nothing));
    assert!(matches!(
        read_message(br#"{"method":"notifications/odd"}"#),
        Read::Nothing
    ));
}

#[tokio::test]
async fn a_line_over_the_bound_is_dropped_and_the_next_one_is_read() {
    let mut bytes = vec![b'x'; MAX_LINE + 10];
    bytes.extend_from_slice(b"\nnext\nlast");
    let mut input = BufReader::new(&bytes[..]);
    let mut line = Vec::new();
    assert!(matches!(
        next_line(&mut input, &mut line).await,
        Ok(Line::TooLong)
    ));
    assert!(matches!(
        next_line(&mut input, &mut line).await,
        Ok(Line::Whole)
    ));
    assert_eq!(line, b"next\n");
    assert!(matches!(
        next_line(&mut input, &mut line).await,
        Ok(Line::Whole)
    ));
    assert_eq!(line, b"last");
    assert!(matches!(
        next_line(&mut input, &mut line).await,
        Ok(Line::End)
    ));
}
