//! A model server for the tests: OpenAI Chat Completions over plain HTTP on a
//! loopback port, each request answered by the next part of a script.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// One answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A final text.
    Say(String),
    /// Tool calls: name and arguments.
    Call(Vec<(String, Value)>),
    /// Headers and a first piece of text, then silence until the client closes.
    Hang,
    /// A status with a JSON body.
    Status(u16, Value),
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A request came; its body.
    Request(Box<Value>),
    /// The client closed a hanging answer.
    Closed(Instant),
}

pub struct Provider {
    pub base_url: String,
    pub events: Receiver<Event>,
}

impl Provider {
    /// The last reply is repeated.
    pub fn start(replies: Vec<Reply>) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("address"));
        let (sender, events) = channel();
        let replies = Arc::new(Mutex::new(replies));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sender, replies) = (sender.clone(), Arc::clone(&replies));
                std::thread::spawn(move || serve(stream, &replies, &sender));
            }
        });
        Provider { base_url, events }
    }

    /// The next request's body.
    pub fn request(&self, patience: Duration) -> Value {
        loop {
            match self.events.recv_timeout(patience).expect("a request") {
                Event::Request(body) => return *body,
                Event::Closed(_) => {}
            }
        }
    }

    /// When the client closed a hanging answer.
    pub fn closed(&self, patience: Duration) -> Instant {
        loop {
            match self.events.recv_timeout(patience).expect("a close") {
                Event::Closed(at) => return at,
                Event::Request(_) => {}
            }
        }
    }
}

fn serve(stream: TcpStream, replies: &Mutex<Vec<Reply>>, events: &Sender<Event>) {
    let Ok(writer) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    if reader.read_line(&mut first).is_err() {
        return;
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    if first.starts_with("GET ") {
        let models = json!({"object": "list", "data": [{"id": "fake-model", "object": "model"}]});
        whole(writer, 200, "application/json", &models.to_string());
        return;
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let reply = {
        let mut replies = replies.lock().expect("lock");
        if replies.len() > 1 {
            replies.remove(0)
        } else {
            replies[0].clone()
        }
    };
    let _ = events.send(Event::Request(Box::new(body)));
    match reply {
        Reply::Status(status, body) => {
            whole(writer, status, "application/json", &body.to_string());
        }
        Reply::Say(text) => {
            let delta = json!({"role": "assistant", "content": text});
            sse(
                writer,
                &[chunk(delta, None), chunk(json!({}), Some("stop"))],
            );
        }
        Reply::Call(calls) => {
            let calls: Vec<Value> = calls
                .into_iter()
                .enumerate()
                .map(|(index, (name, args))| {
                    json!({
                        "index": index,
                        "id": format!("call_{index}_{:x}", rand()),
                        "type": "function",
                        "function": {"name": name, "arguments": args.to_string()},
                    })
                })
                .collect();
            let delta = json!({"role": "assistant", "content": null, "tool_calls": calls});
            sse(
                writer,
                &[chunk(delta, None), chunk(json!({}), Some("tool_calls"))],
            );
        }
        Reply::Hang => {
            hang(writer, reader);
            let _ = events.send(Event::Closed(Instant::now()));
        }
    }
}

fn rand() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake-model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    })
}

fn whole(mut writer: TcpStream, status: u16, kind: &str, body: &str) {
    let _ = write!(
        writer,
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

fn sse(writer: TcpStream, chunks: &[Value]) {
    let mut body = String::new();
    for chunk in chunks {
        body.push_str(&format!("data: {chunk}\n\n"));
    }
    body.push_str("data: [DONE]\n\n");
    whole(writer, 200, "text/event-stream", &body);
}

fn hang(mut writer: TcpStream, mut reader: BufReader<TcpStream>) {
    let first = format!("data: {}\n\n", chunk(json!({"content": "Thinking"}), None));
    let _ = write!(
        writer,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n",
        first.len()
    );
    let _ = writer.flush();
    // Ends when the client closes its side.
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest);
}
