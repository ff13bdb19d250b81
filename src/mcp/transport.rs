//! The wire under the protocol: one JSON-RPC message a line, in and out.
//!
//! rmcp has a transport of its own; this one differs where hosts suffer:
//! a line that cannot be read gets an answer instead of silence, nothing is
//! said about a call after its answer or its cancellation, and the end of the
//! input stops running work at once instead of after it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta, JsonRpcMessage,
    ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Longest line taken in. Task and context may each hold 256 KiB of text,
/// which JSON can stretch sixfold; twice that is room enough.
const MAX_LINE: usize = 8 * 1024 * 1024;

/// Messages read ahead of the service loop.
const READ_AHEAD: usize = 64;

/// Requests not yet answered, each with the token under which its caller
/// wants to hear of progress.
#[derive(Default)]
struct InFlight(Mutex<HashMap<RequestId, Option<ProgressToken>>>);

impl InFlight {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<RequestId, Option<ProgressToken>>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what an incoming message opens or closes.
    fn received(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let token = match &request.request {
                    call @ ClientRequest::CallToolRequest(_) => {
                        call.get_meta().get_progress_token()
                    }
                    _ => None,
                };
                self.with(|calls| calls.insert(request.id.clone(), token));
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.with(|calls| calls.remove(id));
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Whether an outgoing message may still be said; an answer closes its call.
    fn may_send(&self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::ProgressNotification(progress) => self.with(|calls| {
                    calls
                        .values()
                        .any(|token| token.as_ref() == Some(&progress.params.progress_token))
                }),
                _ => true,
            },
            JsonRpcMessage::Response(response) => {
                self.with(|calls| calls.remove(&response.id));
                true
            }
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.with(|calls| calls.remove(id));
                }
                true
            }
            JsonRpcMessage::Request(_) => true,
        }
    }
}

/// The transport that [`super::serve`] gives to rmcp.
pub(super) struct Lines<W> {
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    outgoing: Arc<tokio::sync::Mutex<W>>,
    in_flight: Arc<InFlight>,
    hangup: CancellationToken,
}

impl<W: AsyncWrite + Unpin + Send + 'static> Lines<W> {
    /// Starts reading `input`. `hangup` is cancelled when the input ends or
    /// the output cannot be written any more.
    pub(super) fn new<R>(input: R, output: W, hangup: CancellationToken) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
    {
        let (sender, incoming) = mpsc::channel(READ_AHEAD);
        let outgoing = Arc::new(tokio::sync::Mutex::new(output));
        let in_flight = Arc::new(InFlight::default());
        let reader = Reader {
            input: BufReader::new(input),
            sender,
            outgoing: Arc::clone(&outgoing),
            in_flight: Arc::clone(&in_flight),
        };
        let stop = hangup.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = reader.run() => {}
                () = stop.cancelled() => {}
            }
            stop.cancel();
        });
        Lines {
            incoming,
            outgoing,
            in_flight,
            hangup,
        }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Transport<RoleServer> for Lines<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = Arc::clone(&self.outgoing);
        let in_flight = Arc::clone(&self.in_flight);
        let hangup = self.hangup.clone();
        async move {
            let line = serde_json::to_vec(&item)?;
            let mut output = outgoing.lock().await;
            // Asked under the lock of the output: what passes here is written
            // before anything that closes the call.
            if !in_flight.may_send(&item) {
                return Ok(());
            }
            let written = write_line(&mut *output, line).await;
            if written.is_err() {
                hangup.cancel();
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.incoming.close();
        self.outgoing.lock().await.flush().await
    }
}

async fn write_line<W: AsyncWrite + Unpin>(output: &mut W, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    output.write_all(&line).await?;
    output.flush().await
}

struct Reader<R, W> {
    input: BufReader<R>,
    sender: mpsc::Sender<ClientJsonRpcMessage>,
    outgoing: Arc<tokio::sync::Mutex<W>>,
    in_flight: Arc<InFlight>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Reader<R, W> {
    async fn run(mut self) {
        let mut line = Vec::new();
        loop {
            match next_line(&mut self.input, &mut line).await {
                Ok(Line::Whole) => {}
                Ok(Line::TooLong) => {
                    let answer = error(
                        Value::Null,
                        PARSE_ERROR,
                        &format!("the line is longer than {MAX_LINE} bytes"),
                    );
                    if write_value(&self.outgoing, answer).await.is_err() {
                        return;
                    }
                    continue;
                }
                Ok(Line::End) | Err(_) => return,
            }
            match read_message(&line) {
                Read::Nothing => {}
                Read::Message(message) => {
                    self.in_flight.received(&message);
                    if self.sender.send(*message).await.is_err() {
                        return;
                    }
                }
                Read::Refused(answer) => {
                    if write_value(&self.outgoing, answer).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

async fn write_value<W: AsyncWrite + Unpin>(
    outgoing: &tokio::sync::Mutex<W>,
    value: Value,
) -> io::Result<()> {
    write_line(&mut *outgoing.lock().await, value.to_string().into_bytes()).await
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads one line into `line`, never holding more than [`MAX_LINE`] bytes. A
/// last line without a line break counts.
async fn next_line<R: AsyncRead + Unpin>(
    input: &mut BufReader<R>,
    line: &mut Vec<u8>,
) -> io::Result<Line> {
    line.clear();
    let mut too_long = false;
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            return Ok(match (too_long, line.is_empty()) {
                (true, _) => Line::TooLong,
                (false, true) => Line::End,
                (false, false) => Line::Whole,
            });
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let taken = newline.map_or(available.len(), |at| at + 1);
        if too_long || line.len() + taken > MAX_LINE {
            too_long = true;
            line.clear();
        } else {
            line.extend_from_slice(&available[..taken]);
        }
        input.consume(taken);
        if newline.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Whole });
        }
    }
}

enum Read {
    /// An empty line, or something that gets no answer by the rules.
    Nothing,
    Message(Box<ClientJsonRpcMessage>),
    /// The answer to a line that is no message.
    Refused(Value),
}

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

fn error(id: Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// The outer fields alone, with nothing else of the message looked at, so
/// that an id can be answered even when the parameters cannot be read.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<Value>,
    #[serde(default, rename = "params")]
    _params: IgnoredAny,
}

fn read_message(line: &[u8]) -> Read {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Read::Nothing;
    }
    let cause = match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
        Ok(message) => return Read::Message(Box::new(message)),
        Err(cause) => cause,
    };
    let head = serde_json::from_slice::<Head>(line).ok();
    let id = head
        .as_ref()
        .and_then(|head| head.id.clone())
        .filter(|id| id.is_string() || id.is_number())
        .unwrap_or(Value::Null);
    match serde_json::from_slice::<IgnoredAny>(line) {
        Err(_) => Read::Refused(error(
            id,
            PARSE_ERROR,
            &format!("the line is not JSON: {cause}"),
        )),
        Ok(_) if line.first() == Some(&b'[') => Read::Refused(error(
            Value::Null,
            INVALID_REQUEST,
            "batches are not supported; send one message a line",
        )),
        // A notification gets no answer, not even a wrong one.
        Ok(_)
            if head
                .as_ref()
                .is_some_and(|head| head.id.is_none() && head.method.is_some()) =>
        {
            Read::Nothing
        }
        Ok(_) => Read::Refused(error(
            id,
            INVALID_REQUEST,
            &format!("the line is JSON but not a JSON-RPC 2.0 message: {cause}"),
        )),
    }
}

#[cfg(test)]
mod tests;
