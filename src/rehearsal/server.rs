//! The server: just enough HTTP/1.1 for one client, and the wire's real shapes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::{Script, Turn};

/// Bounds of a request; what is larger is not from our own client.
const MOST_HEAD: u64 = 64 << 10;
const MOST_BODY: usize = 64 << 20;

/// A running rehearsal; dropping it ends it.
#[derive(Debug)]
pub struct Rehearsal {
    address: SocketAddr,
    model: String,
    task: String,
    accepting: AbortHandle,
}

impl Rehearsal {
    /// Starts to listen on a free loopback port. Needs a tokio runtime.
    pub async fn start(script: Script) -> io::Result<Rehearsal> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (model, task) = (script.model.clone(), script.task.clone());
        let script = Arc::new(script);
        let accepting = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => {
                        let script = Arc::clone(&script);
                        // A client that breaks off is its own business.
                        tokio::spawn(async move { serve(socket, &script).await.ok() });
                    }
                    // Out of descriptors, most likely: others must end first.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Ok(Rehearsal {
            address,
            model,
            task,
            accepting: accepting.abort_handle(),
        })
    }

    /// The base URL for the OpenAI wire.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The task that belongs to the script.
    pub fn task(&self) -> &str {
        &self.task
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

async fn serve(socket: TcpStream, script: &Script) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut stream = BufReader::new(socket);
    let request = read_request(&mut stream).await?;
    let path = request.path.split('?').next().unwrap_or_default();
    match (request.method.as_str(), path) {
        ("GET", path) if path.ends_with("/models") => {
            let list = json!({"object": "list", "data": [{"id": script.model, "object": "model", "owned_by": "delegate"}]});
            whole(&mut stream, "200 OK", &list).await
        }
        ("POST", path) if path.ends_with("/chat/completions") => {
            match serde_json::from_slice::<Value>(&request.body) {
                Ok(body) => answer(&mut stream, script, &body).await,
                Err(_) => {
                    let error = json!({"error": {"message": "the body is no JSON", "type": "invalid_request_error"}});
                    whole(&mut stream, "400 Bad Request", &error).await
                }
            }
        }
        _ => {
            let error = json!({"error": {"message": "the rehearsal speaks only /v1/chat/completions", "type": "not_found"}});
            whole(&mut stream, "404 Not Found", &error).await
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> io::Result<Request> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut head = Vec::new();
    let mut limited = (&mut *stream).take(MOST_HEAD);
    while !head.ends_with(b"\r\n\r\n") {
        if limited.read_until(b'\n', &mut head).await? == 0 {
            return Err(bad("the request ends in its head"));
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (
        first.next().unwrap_or_default(),
        first.next().unwrap_or_default(),
    );
    let mut length = 0usize;
    for line in lines {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value
                .trim()
                .parse()
                .map_err(|_| bad("the length is no number"))?;
        }
    }
    if length > MOST_BODY {
        return Err(bad("the request is too large"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Request {
        method: method.to_owned(),
        path: path.to_owned(),
        body,
    })
}

async fn whole(stream: &mut BufReader<TcpStream>, status: &str, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.flush().await
}

async fn answer(
    stream: &mut BufReader<TcpStream>,
    script: &Script,
    body: &Value,
) -> io::Result<()> {
    let messages = body.get("messages").and_then(Value::as_array);
    let said = messages.map_or(0, |all| {
        all.iter()
            .filter(|m| m.get("role") == Some(&json!("assistant")))
            .count()
    });
    let mut turn = script.turn(said);
    if body.get("response_format").is_some() {
        turn = in_structured_words(turn);
    }
    let size = |text: &str| text.len().div_ceil(4);
    let usage = json!({
        "prompt_tokens": size(&body.to_string()),
        "completion_tokens": size(&turn.say) + size(&turn.think) + turn.calls.iter().map(|c| size(&json!(c.args).to_string())).sum::<usize>(),
    });
    let id = format!("rehearsal-{said}");
    if body.get("stream") != Some(&Value::Bool(true)) {
        return whole(
            stream,
            "200 OK",
            &whole_answer(script, &turn, &id, said, &usage),
        )
        .await;
    }
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        )
        .await?;
    let pace = Duration::from_millis(script.pace_ms.min(1000));
    for (delta, finish) in deltas(&turn, said) {
        let chunk = json!({"id": id, "object": "chat.completion.chunk", "model": script.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        event(stream, &chunk.to_string()).await?;
        tokio::time::sleep(pace).await;
    }
    let last = json!({"id": id, "object": "chat.completion.chunk", "model": script.model, "choices": [], "usage": usage});
    event(stream, &last.to_string()).await?;
    event(stream, "[DONE]").await?;
    stream.write_all(b"0\r\n\r\n").await?;
    stream.flush().await
}

async fn event(stream: &mut BufReader<TcpStream>, data: &str) -> io::Result<()> {
    let event = format!("data: {data}\n\n");
    stream
        .write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
        .await?;
    stream.flush().await
}

/// The pieces of an answer as a server streams them.
fn deltas(turn: &Turn, said: usize) -> Vec<(Value, Option<&'static str>)> {
    let mut out = vec![(json!({"role": "assistant", "content": null}), None)];
    out.extend(words(&turn.think).map(|piece| (json!({"reasoning_content": piece}), None)));
    out.extend(words(&turn.say).map(|piece| (json!({"content": piece}), None)));
    for (index, call) in turn.calls.iter().enumerate() {
        let arguments = json!(call.args).to_string();
        let half = arguments
            .char_indices()
            .nth(arguments.chars().count() / 2)
            .map_or(0, |(at, _)| at);
        let (first, second) = arguments.split_at(half);
        out.push((
            json!({"tool_calls": [{"index": index, "id": call_id(said, index), "type": "function",
                "function": {"name": call.tool, "arguments": first}}]}),
            None,
        ));
        out.push((
            json!({"tool_calls": [{"index": index, "function": {"arguments": second}}]}),
            None,
        ));
    }
    out.push((json!({}), Some(finish(turn))));
    out
}

fn whole_answer(script: &Script, turn: &Turn, id: &str, said: usize, usage: &Value) -> Value {
    let mut message = json!({"role": "assistant", "content": turn.say});
    if !turn.think.is_empty() {
        message["reasoning_content"] = json!(turn.think);
    }
    if !turn.calls.is_empty() {
        let calls = turn.calls.iter().enumerate().map(|(index, call)| {
            json!({"id": call_id(said, index), "type": "function",
                "function": {"name": call.tool, "arguments": json!(call.args).to_string()}})
        });
        message["tool_calls"] = calls.collect();
    }
    json!({"id": id, "object": "chat.completion", "model": script.model, "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": finish(turn)}]})
}

fn call_id(said: usize, index: usize) -> String {
    format!("call_{said}_{index}")
}

fn finish(turn: &Turn) -> &'static str {
    if turn.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    }
}

/// A text in words, blanks kept.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ').filter(|word| !word.is_empty())
}

/// The same answer to a client that asked for one JSON action a turn.
fn in_structured_words(turn: Turn) -> Turn {
    let action = match turn.calls.first() {
        Some(call) => {
            let mut action = json!({"tool": call.tool});
            if let Value::Object(map) = &mut action {
                map.extend(call.args.clone());
            }
            action
        }
        None => json!({"tool": "Finish", "summary": turn.say}),
    };
    Turn {
        think: turn.think,
        say: action.to_string(),
        calls: Vec::new(),
    }
}
