//! The server that plays one case. Threads and blocking sockets: it has to be
//! able to do what no HTTP library does, such as to break off with a reset.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::checks::{self, Before, Request};
use super::{Answer, Case, MODEL, unbase64};

/// What was seen of one request.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub counted: bool,
    pub n: usize,
    pub path: String,
    pub gap_ms: Option<f64>,
    pub violations: Vec<String>,
    pub client_closed_ms: Option<f64>,
    pub body_bytes: usize,
    /// When it came in.
    pub at: Option<Instant>,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    before: Option<Before>,
    last_end: Option<Instant>,
}

struct Shared {
    case: Case,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running server.
pub struct Server {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Server {
    pub fn start(case: &Case) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            case: case.clone(),
            state: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                thread::spawn(move || {
                    // A client that goes away is part of many cases.
                    serve(socket, &shared).ok();
                });
            }
        });
        Server { port, shared }
    }

    /// What was seen up to now.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }
}

struct Head {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
}

fn bad(what: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

fn line(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if reader.read_until(b'\n', &mut bytes)? == 0 {
        return Err(bad("the request ends early"));
    }
    Ok(String::from_utf8_lossy(&bytes)
        .trim_end_matches(['\r', '\n'])
        .to_owned())
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<(Head, Vec<u8>)> {
    let first = line(reader)?;
    let mut words = first.split(' ');
    let mut head = Head {
        method: words.next().unwrap_or_default().to_owned(),
        path: words.next().unwrap_or_default().to_owned(),
        headers: BTreeMap::new(),
    };
    loop {
        let line = line(reader)?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            head.headers
                .insert(name.to_lowercase(), value.trim().to_owned());
        }
    }
    let mut body = Vec::new();
    if head
        .headers
        .get("transfer-encoding")
        .is_some_and(|v| v.to_lowercase().contains("chunked"))
    {
        loop {
            let size = line(reader)?;
            let size = size.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| bad("a chunk size"))?;
            let mut chunk = vec![0; size];
            reader.read_exact(&mut chunk)?;
            body.extend(chunk);
            line(reader)?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = head.headers.get("content-length") {
        body = vec![0; length.parse().map_err(|_| bad("a length"))?];
        reader.read_exact(&mut body)?;
    }
    Ok((head, body))
}

fn serve(socket: TcpStream, shared: &Shared) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = BufReader::new(socket.try_clone()?);
    let (head, raw) = read_request(&mut reader)?;
    drop(reader);
    if head.method == "GET" {
        return get(socket, &head.path, shared);
    }
    let arrived = Instant::now();
    let (at, answer) = note(shared, &head, raw, arrived);
    play(socket, shared, at, &answer, arrived)
}

fn get(mut socket: TcpStream, path: &str, shared: &Shared) -> std::io::Result<()> {
    let (status, body) = if path == "/__report" {
        let requests: Vec<Value> = shared
            .state()
            .seen
            .iter()
            .map(|s| {
                json!({"counted": s.counted, "n": s.n, "path": s.path, "gap_ms": s.gap_ms, "violations": s.violations,
                    "client_closed_ms": s.client_closed_ms, "body_bytes": s.body_bytes})
            })
            .collect();
        ("200 OK", json!({"requests": requests}))
    } else if path
        .split('?')
        .next()
        .unwrap_or_default()
        .ends_with("/models")
    {
        let model =
            json!({"id": MODEL, "object": "model", "created": 1_790_000_000, "owned_by": "replay"});
        ("200 OK", json!({"object": "list", "data": [model]}))
    } else {
        ("404 Not Found", json!({"error": {"message": "not found"}}))
    };
    let body = body.to_string();
    let length = body.len();
    write!(
        socket,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Checks a request and writes it down; gives its place and its answer. The
/// answer never depends on a violation.
fn note(shared: &Shared, head: &Head, raw: Vec<u8>, arrived: Instant) -> (usize, Answer) {
    let case = &shared.case;
    let mut state = shared.state();
    let k = state.seen.iter().filter(|s| s.counted).count();
    let gap_ms = state
        .last_end
        .map(|end| arrived.saturating_duration_since(end).as_secs_f64() * 1000.0);
    let header = |name: &str| {
        head.headers
            .get(name)
            .map(String::as_str)
            .unwrap_or_default()
    };
    let key = format!("{}{}", header("authorization"), header("x-api-key"));
    let (mut violations, body) = checks::invariants(&Request {
        format: &case.format,
        path: &head.path,
        key: &key,
        raw: &raw,
        before: state.before.as_ref(),
    });
    let answer = match case.transport.get(k) {
        Some(answer) => {
            if let (Some(rule), Some(body)) = (&answer.request, &body) {
                violations.extend(checks::request(
                    rule,
                    &case.format,
                    &raw,
                    body,
                    gap_ms,
                    state.before.as_ref(),
                ));
            }
            answer.clone()
        }
        None if case.repeat_last && !case.transport.is_empty() => {
            case.transport[case.transport.len() - 1].clone()
        }
        None => {
            violations.push(format!("unexpected extra request {}", k + 1));
            let error = json!({"error": {"message": "replay: unexpected extra request", "type": "server_error"}});
            Answer {
                status: 500,
                headers: BTreeMap::from([("Content-Type".to_owned(), json!("application/json"))]),
                chunks: vec![Value::String(error.to_string())],
                end: None,
                request: None,
            }
        }
    };
    state.seen.push(Seen {
        counted: true,
        n: k + 1,
        path: head.path.clone(),
        gap_ms,
        violations,
        client_closed_ms: None,
        body_bytes: raw.len(),
        at: Some(arrived),
    });
    state.before = Some(Before {
        raw,
        status: answer.status,
    });
    (state.seen.len() - 1, answer)
}

/// Watches whether the client closes while an answer is under way.
struct Watch {
    gone: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Watch {
    fn start(socket: &TcpStream) -> std::io::Result<Watch> {
        let (gone, stop) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let mut reading = socket.try_clone()?;
        reading.set_read_timeout(Some(Duration::from_millis(20)))?;
        let (gone_there, stop_there) = (Arc::clone(&gone), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while !stop_there.load(Ordering::SeqCst) {
                match reading.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(e)
                        if matches!(
                            e.kind(),
                            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                        ) => {}
                    Err(_) => break,
                }
            }
            if !stop_there.load(Ordering::SeqCst) {
                gone_there.store(true, Ordering::SeqCst);
            }
        });
        Ok(Watch { gone, stop, thread })
    }

    /// Waits, but not longer than the client stays.
    fn wait(&self, most: Duration) {
        let end = Instant::now() + most;
        while Instant::now() < end && !self.gone.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5).min(most));
        }
    }

    fn end(self) -> bool {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().ok();
        self.gone.load(Ordering::SeqCst)
    }
}

fn play(
    mut socket: TcpStream,
    shared: &Shared,
    at: usize,
    answer: &Answer,
    arrived: Instant,
) -> std::io::Result<()> {
    let watch = Watch::start(&socket)?;
    let sent = send(&mut socket, answer, &watch, shared);
    let closed = match (&sent, answer.end.as_deref()) {
        (Ok(()), Some("reset")) => {
            watch.end();
            shared.state().last_end = Some(Instant::now());
            rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
            return Ok(());
        }
        (Ok(()), Some("hang")) => {
            watch.wait(Duration::from_secs(600));
            watch.end()
        }
        (Ok(()), _) => {
            watch.wait(Duration::from_secs(2));
            watch.end()
        }
        (Err(_), _) => {
            watch.end();
            true
        }
    };
    if closed {
        shared.state().seen[at].client_closed_ms = Some(arrived.elapsed().as_secs_f64() * 1000.0);
    }
    sent
}

fn send(
    socket: &mut TcpStream,
    answer: &Answer,
    watch: &Watch,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} X\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n",
        answer.status
    );
    for (name, value) in &answer.headers {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        head.push_str(&format!("{name}: {}\r\n", dated(&value)));
    }
    socket.write_all(format!("{head}\r\n").as_bytes())?;
    for chunk in &answer.chunks {
        if let Some(pause) = chunk.get("sleep_ms").and_then(Value::as_u64) {
            watch.wait(Duration::from_millis(pause));
            continue;
        }
        if watch.gone.load(Ordering::SeqCst) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let bytes = match chunk {
            Value::String(text) => text.clone().into_bytes(),
            other => match (
                other.get("repeat").and_then(Value::as_str),
                other.get("b64").and_then(Value::as_str),
            ) {
                (Some(text), _) => {
                    let times = other.get("times").and_then(Value::as_u64).unwrap_or(1);
                    text.repeat(times as usize).into_bytes()
                }
                (None, Some(b64)) => unbase64(b64),
                (None, None) => Vec::new(),
            },
        };
        if bytes.is_empty() {
            continue;
        }
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend(bytes);
        framed.extend(b"\r\n");
        socket.write_all(&framed)?;
        // So that each element is a read of its own on the other side.
        thread::sleep(Duration::from_millis(4));
    }
    if matches!(answer.end.as_deref(), None | Some("close")) {
        shared.state().last_end = Some(Instant::now());
        socket.write_all(b"0\r\n\r\n")?;
    }
    Ok(())
}

/// `@http-date+Ns` as the date in N seconds.
fn dated(value: &str) -> String {
    let seconds = value
        .strip_prefix("@http-date+")
        .and_then(|v| v.strip_suffix('s'))
        .and_then(|v| v.parse().ok());
    match seconds {
        Some(seconds) => httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds)),
        None => value.to_owned(),
    }
}
