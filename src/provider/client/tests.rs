use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::provider::{Message, ToolMode, ToolSpec};

/// What the server does with one connection.
enum Act {
    /// Sends this and closes.
    Say(String),
    /// Sends this and keeps the socket open until the client closes it.
    Hold(String),
    /// Sends each piece after a pause, then closes.
    Slowly(Vec<&'static str>, Duration),
}

struct Server {
    port: u16,
    bodies: Arc<Mutex<Vec<Value>>>,
    /// A word each time a held socket was closed by the client.
    closed: mpsc::UnboundedReceiver<()>,
}

async fn server(acts: Vec<Act>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let (sender, closed) = mpsc::unbounded_channel();
    let kept = Arc::clone(&bodies);
    tokio::spawn(async move {
        for act in acts {
            let (mut socket, _) = listener.accept().await.unwrap();
            let body = request(&mut socket).await;
            kept.lock().unwrap().push(body);
            match act {
                Act::Say(text) => {
                    let text = text.replace("PORT", &port.to_string());
                    socket.write_all(text.as_bytes()).await.unwrap();
                }
                Act::Hold(text) => {
                    socket.write_all(text.as_bytes()).await.unwrap();
                    let sender = sender.clone();
                    tokio::spawn(async move {
                        let mut rest = Vec::new();
                        let _ = socket.read_to_end(&mut rest).await;
                        let _ = sender.send(());
                    });
                }
                Act::Slowly(parts, pause) => {
                    for part in parts {
                        socket.write_all(part.as_bytes()).await.unwrap();
                        tokio::time::sleep(pause).await;
                    }
                }
            }
        }
    });
    Server {
        port,
        bodies,
        closed,
    }
}

async fn request(socket: &mut TcpStream) -> Value {
    let mut seen = Vec::new();
    loop {
        let mut piece = [0; 8192];
        let n = socket.read(&mut piece).await.unwrap();
        seen.extend_from_slice(&piece[..n]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|l| {
                    l.to_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse::<usize>()
                        .ok()
                })
                .unwrap_or(0);
            if body.len() >= length {
                return serde_json::from_str(body).unwrap_or_default();
            }
        }
        assert!(n > 0, "the request ends early");
    }
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const ANSWER: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";

fn stream(events: &str) -> String {
    format!("{STREAM}{events}")
}

fn whole(status: &str, body: &str) -> Act {
    Act::Say(format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

fn settings() -> RunSettings {
    RunSettings {
        max_attempts: 3,
        retry_base: Duration::from_millis(2),
        retry_cap: Duration::from_millis(4),
        first_byte_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(10),
        ..RunSettings::default()
    }
}

fn client(server: &Server, wire: Wire, settings: &RunSettings) -> Client {
    let endpoint = Endpoint {
        base_url: format!("http://127.0.0.1:{}/v1", server.port)
            .parse()
            .unwrap(),
        wire,
        model: "m".into(),
        key: Some("hunter2hunter2".to_owned().into()),
        extra_body: Map::new(),
    };
    Client::new(endpoint, settings).unwrap()
}

fn tools() -> Vec<ToolSpec> {
    vec![ToolSpec {
        name: "Read",
        description: String::new(),
        schema: json!({"type": "object", "properties": {"file_path": {"type": "string"}}}),
    }]
}

async fn ask(
    client: &mut Client,
    mode: ToolMode,
    cancel: &CancellationToken,
) -> (Result<TurnReply, ProviderError>, Vec<ProviderEvent>) {
    let (messages, tools) = ([Message::user("task")], tools());
    let request = TurnRequest {
        system: "sys",
        messages: &messages,
        tools: &tools,
        max_output_tokens: 100,
        tool_mode: mode,
    };
    let mut events = Vec::new();
    let answer = client
        .turn(request, cancel, &mut |event| events.push(event))
        .await;
    (answer, events)
}

async fn once(
    acts: Vec<Act>,
    settings: &RunSettings,
) -> (Result<TurnReply, ProviderError>, Server) {
    let server = server(acts).await;
    let mut client = client(&server, Wire::Openai, settings);
    let (answer, _) = ask(&mut client, ToolMode::Auto, &CancellationToken::new()).await;
    (answer, server)
}

#[tokio::test]
async fn cancelling_closes_the_socket_at_once() {
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    for text in [stream(half), String::new(), STREAM.to_owned()] {
        let mut server = server(vec![Act::Hold(text)]).await;
        let mut client = client(&server, Wire::Openai, &settings());
        let cancel = CancellationToken::new();
        let bodies = Arc::clone(&server.bodies);
        let canceller = cancel.clone();
        tokio::spawn(async move {
            while bodies.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            canceller.cancel();
        });
        let (answer, _) = ask(&mut client, ToolMode::Auto, &cancel).await;
        assert_eq!(answer.unwrap_err().class, ErrorClass::Cancelled);
        let closed = tokio::time::timeout(Duration::from_secs(2), server.closed.recv()).await;
        assert_eq!(closed.unwrap(), Some(()));
    }
}

#[tokio::test]
async fn cancelling_ends_a_wait_between_tries() {
    let long = Act::Say("HTTP/1.1 429 X\r\nretry-after: 50\r\ncontent-length: 0\r\n\r\n".into());
    let server = server(vec![long]).await;
    let mut client = client(&server, Wire::Openai, &settings());
    let cancel = CancellationToken::new();
    let canceller = cancel.clone();
    let (messages, tools) = ([Message::user("task")], tools());
    let request = TurnRequest {
        system: "",
        messages: &messages,
        tools: &tools,
        max_output_tokens: 100,
        tool_mode: ToolMode::Native,
    };
    let mut on = |event| {
        if let ProviderEvent::Retrying { wait, .. } = event {
            assert!(wait >= Duration::from_secs(50));
            canceller.cancel();
        }
    };
    let error = client.turn(request, &cancel, &mut on).await.unwrap_err();
    assert_eq!((error.class, error.attempts), (ErrorClass::Cancelled, 1));
}

#[tokio::test]
async fn a_broken_off_try_leaves_nothing_behind() {
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    let server = server(vec![Act::Say(stream(half)), Act::Say(stream(ANSWER))]).await;
    let mut client = client(&server, Wire::Openai, &settings());
    let (answer, events) = ask(&mut client, ToolMode::Auto, &CancellationToken::new()).await;
    assert_eq!(answer.unwrap().message.text(), "hi");
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| match event {
            ProviderEvent::Sent { .. } => "sent",
            ProviderEvent::Text(_) => "text",
            ProviderEvent::Retrying { class, .. } => class.code(),
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["sent", "text", "transport", "sent", "text"]);
}

#[tokio::test]
async fn tries_are_counted_and_the_last_failure_is_told() {
    let down = || {
        whole(
            "503 X",
            "{\"error\":{\"message\":\"down, key hunter2hunter2\"}}",
        )
    };
    let (answer, server) = once(vec![down(), down(), down(), down()], &settings()).await;
    let error = answer.unwrap_err();
    assert_eq!(
        (error.class, error.status, error.attempts),
        (ErrorClass::Overloaded, Some(503), 3)
    );
    assert_eq!(
        error.text,
        "the provider is overloaded (HTTP 503): down, key ***; 3 requests were made"
    );
    assert_eq!(server.bodies.lock().unwrap().len(), 3);
    // What cannot get better is asked once.
    for (status, class) in [
        ("400 X", ErrorClass::BadRequest),
        ("401 X", ErrorClass::Auth),
        ("402 X", ErrorClass::Quota),
    ] {
        let (answer, _) = once(vec![whole(status, "{}")], &settings()).await;
        let error = answer.unwrap_err();
        assert_eq!((error.class, error.attempts), (class, 1));
    }
}

#[tokio::test]
async fn an_event_called_error_is_one() {
    let one = RunSettings {
        max_attempts: 1,
        ..settings()
    };
    for (data, class, says) in [
        (
            "{\"code\":500,\"message\":\"not the expected peg-native format\",\"type\":\"server_error\"}",
            ErrorClass::UpstreamError,
            "peg-native",
        ),
        (
            "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}",
            ErrorClass::Overloaded,
            "x",
        ),
        ("out of memory", ErrorClass::UpstreamError, "out of memory"),
        ("", ErrorClass::UpstreamError, "without a word"),
    ] {
        let events = format!("{ANSWER}event: error\ndata: {data}\n\n");
        let error = once(vec![Act::Say(stream(&events))], &one)
            .await
            .0
            .unwrap_err();
        assert_eq!(error.class, class, "{data}");
        assert!(error.text.contains(says), "{}", error.text);
    }
}

#[tokio::test]
async fn a_wait_longer_than_a_minute_is_not_sat_through() {
    let long = Act::Say("HTTP/1.1 429 X\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n".into());
    let error = once(vec![long], &settings()).await.0.unwrap_err();
    assert_eq!(error.class, ErrorClass::RateLimit);
    assert!(error.text.contains("asks to wait 3600 s"), "{}", error.text);
}

#[tokio::test]
async fn nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let endpoint = Endpoint {
        base_url: format!("http://127.0.0.1:{port}/v1").parse().unwrap(),
        wire: Wire::Openai,
        model: "m".into(),
        key: None,
        extra_body: Map::new(),
    };
    let mut client = Client::new(endpoint, &settings()).unwrap();
    let (answer, _) = ask(&mut client, ToolMode::Auto, &CancellationToken::new()).await;
    let error = answer.unwrap_err();
    assert_eq!((error.class, error.attempts), (ErrorClass::Transport, 3));
    assert!(error.text.contains("refused"), "{}", error.text);
}

#[tokio::test]
async fn redirects_stay_on_the_host() {
    let redirect = |code: u16, to: &str| {
        Act::Say(format!(
            "HTTP/1.1 {code} X\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ))
    };
    let (answer, server) = once(
        vec![
            redirect(307, "http://127.0.0.1:PORT/v2"),
            Act::Say(stream(ANSWER)),
        ],
        &settings(),
    )
    .await;
    assert_eq!(answer.unwrap().message.text(), "hi");
    // The body goes along.
    assert_eq!(server.bodies.lock().unwrap()[1]["model"], "m");
    for to in [
        "http://localhost:PORT/v2",
        "https://127.0.0.1:PORT/v2",
        "http://127.0.0.1:1/",
    ] {
        let (answer, server) = once(vec![redirect(307, to)], &settings()).await;
        assert_eq!(answer.unwrap_err().class, ErrorClass::Protocol, "{to}");
        assert_eq!(server.bodies.lock().unwrap().len(), 1);
    }
    // A code that turns the POST into a GET is not followed.
    let (answer, _) = once(
        vec![redirect(302, "http://127.0.0.1:PORT/v2")],
        &RunSettings {
            max_attempts: 1,
            ..settings()
        },
    )
    .await;
    assert_eq!(answer.unwrap_err().class, ErrorClass::Protocol);
}

#[tokio::test]
async fn silence_is_bounded_and_comments_are_no_silence() {
    let short = RunSettings {
        max_attempts: 1,
        first_byte_timeout: Duration::from_millis(150),
        idle_timeout: Duration::from_millis(150),
        ..settings()
    };
    for text in [
        String::new(),
        STREAM.to_owned(),
        stream("data: {\"choices\":[]}\n\n"),
    ] {
        let (answer, _) = once(vec![Act::Hold(text)], &short).await;
        let error = answer.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transport);
        assert!(error.text.contains("within 150ms"), "{}", error.text);
    }
    // The twin: as long in all, but never silent.
    let mut parts = vec![STREAM];
    parts.extend([": alive\n\n"; 6]);
    parts.push(ANSWER);
    let (answer, _) = once(vec![Act::Slowly(parts, Duration::from_millis(50))], &short).await;
    assert_eq!(answer.unwrap().message.text(), "hi");
}

#[tokio::test]
async fn the_end_of_the_answer_is_enough() {
    // `[DONE]`, and the socket stays open.
    let start = Instant::now();
    let (answer, _) = once(
        vec![Act::Hold(stream(&format!("{ANSWER}data: [DONE]\n\n")))],
        &settings(),
    )
    .await;
    assert_eq!(answer.unwrap().message.text(), "hi");
    // A reason to stop, then silence: waited for a while, and good.
    let short = RunSettings {
        idle_timeout: Duration::from_millis(100),
        ..settings()
    };
    let (answer, _) = once(vec![Act::Hold(stream(ANSWER))], &short).await;
    assert_eq!(answer.unwrap().message.text(), "hi");
    assert!(start.elapsed() < AFTER_ALL);
}

const AFTER_ALL: Duration = Duration::from_secs(4);

#[tokio::test]
async fn answers_of_the_other_shape() {
    let body = "\n\n{\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}";
    let plain = RunSettings {
        stream: false,
        ..settings()
    };
    for (settings, stream) in [(settings(), json!(true)), (plain, json!(false))] {
        let (answer, server) = once(vec![whole("200 OK", body)], &settings).await;
        let reply = answer.unwrap();
        assert_eq!(
            (
                reply.message.text().as_str(),
                reply.usage.unwrap().input_tokens
            ),
            ("hi", 3)
        );
        assert_eq!(server.bodies.lock().unwrap()[0]["stream"], stream);
    }
    for (act, says) in [
        (
            whole("200 OK", "<html><title>Log in</title></html>"),
            "Log in",
        ),
        (
            whole("200 OK", "{\"data\":{},\"success\":true}"),
            "data, success",
        ),
        (
            Act::Say(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx".into(),
            ),
            "gzip",
        ),
    ] {
        let error = once(vec![act], &settings()).await.0.unwrap_err();
        assert_eq!((error.class, error.attempts), (ErrorClass::Protocol, 1));
        assert!(error.text.contains(says), "{}", error.text);
    }
}

#[tokio::test]
async fn a_server_without_tools_is_asked_for_actions() {
    let refusal = || {
        whole(
            "400 X",
            "{\"error\":{\"message\":\"m does not support tools\"}}",
        )
    };
    let action = "{\\\"tool\\\":\\\"Read\\\",\\\"file_path\\\":\\\"a\\\"}";
    let events = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{action}\"}},\"finish_reason\":\"stop\"}}]}}\n\n"
    );
    let server_ = server(vec![
        refusal(),
        Act::Say(stream(&events)),
        Act::Say(stream(&events)),
    ])
    .await;
    let mut asking = client(&server_, Wire::Openai, &settings());
    let cancel = CancellationToken::new();
    let (answer, seen) = ask(&mut asking, ToolMode::Auto, &cancel).await;
    assert_eq!(
        answer.unwrap().message.tool_uses().next().unwrap().name,
        "Read"
    );
    assert_eq!(
        seen.iter()
            .filter(|e| **e == ProviderEvent::ModeSwitched)
            .count(),
        1
    );
    assert!(
        !seen.iter().any(|e| matches!(e, ProviderEvent::Text(_))),
        "an action is no text"
    );
    // For good: the second turn begins in the other mode.
    ask(&mut asking, ToolMode::Auto, &cancel).await.0.unwrap();
    let bodies = server_.bodies.lock().unwrap().clone();
    assert!(bodies[0].get("tools").is_some() && bodies[1].get("tools").is_none());
    assert!(
        bodies[1].get("response_format").is_some() && bodies[2].get("response_format").is_some()
    );
    // Who asked for native calls keeps them.
    let server_ = server(vec![refusal()]).await;
    let mut asking = client(&server_, Wire::Openai, &settings());
    assert_eq!(
        ask(&mut asking, ToolMode::Native, &cancel)
            .await
            .0
            .unwrap_err()
            .class,
        ErrorClass::BadRequest
    );
}

#[tokio::test]
async fn a_refused_parameter_is_left_out_and_stays_out() {
    let refusal = whole(
        "400 X",
        "{\"error\":{\"message\":\"Unknown parameter: stream_options\"}}",
    );
    let server = server(vec![
        refusal,
        Act::Say(stream(ANSWER)),
        Act::Say(stream(ANSWER)),
    ])
    .await;
    let mut client = client(&server, Wire::Openai, &settings());
    for _ in 0..2 {
        ask(&mut client, ToolMode::Auto, &CancellationToken::new())
            .await
            .0
            .unwrap();
    }
    let bodies = server.bodies.lock().unwrap().clone();
    let has: Vec<bool> = bodies
        .iter()
        .map(|b| b.get("stream_options").is_some())
        .collect();
    assert_eq!(has, [true, false, false]);
}

#[tokio::test]
async fn the_output_bound_fits_beside_the_prompt() {
    let small = RunSettings {
        context_window: 2000,
        ..settings()
    };
    let (messages, tools) = ([Message::user("task")], tools());
    let server = server(vec![Act::Say(stream(ANSWER))]).await;
    let mut client = client(&server, Wire::Openai, &small);
    let request = TurnRequest {
        system: "",
        messages: &messages,
        tools: &tools,
        max_output_tokens: 4000,
        tool_mode: ToolMode::Auto,
    };
    client
        .turn(request, &CancellationToken::new(), &mut |_| {})
        .await
        .unwrap();
    let bound = server.bodies.lock().unwrap()[0]["max_tokens"]
        .as_u64()
        .unwrap();
    assert!((1500..2000).contains(&bound), "{bound}");
}

#[test]
fn what_is_no_endpoint_is_refused() {
    for (url, key) in [
        ("ftp://h/", "k"),
        ("http://u:p@h/", "k"),
        ("http://h/", "bad\nkey"),
    ] {
        let endpoint = Endpoint {
            base_url: url.parse().unwrap(),
            wire: Wire::Openai,
            model: "m".into(),
            key: Some(key.to_owned().into()),
            extra_body: Map::new(),
        };
        let error = Client::new(endpoint, &settings()).err().unwrap();
        assert_eq!(error.class, ErrorClass::Local);
        assert!(
            !error.text.contains("u:p") && !error.text.contains("bad"),
            "{}",
            error.text
        );
    }
}
