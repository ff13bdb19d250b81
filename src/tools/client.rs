//! The worker's client: one call at a time over the socket, the journal on the
//! way.
//!
//! What the worker says is checked as a stranger's. When anything is odd, or a
//! call is cancelled or takes too long, the connection is given up and the
//! worker with it: the next call starts a new one.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::proto::{self, Answer, FromWorker, Hello, Outcome, Plan, ProtoError, ToWorker};
use super::{Mutation, ToolCall, ToolOutput};
use crate::journal::{Closed, Intent, Journal};
use crate::provider::Image;
use crate::workspace::WorkspaceId;

/// Longest wait for one frame; a search ends itself long before.
const PATIENCE: Duration = Duration::from_secs(90);

/// An argument larger than this travels as bytes.
const LARGE: usize = 4096;

/// Bounds on what a worker may say.
const MAX_TEXT: usize = 51_000;
const MAX_REFUSAL: usize = 1_000;
const MAX_DIFF: usize = 256 << 10;

/// Where changes are put on record.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) journal: Arc<Journal>,
    pub(super) workspace: WorkspaceId,
    pub(super) run_id: String,
    pub(super) readonly: bool,
}

/// A change that was let through.
struct Begun {
    id: String,
    plan: Plan,
}

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Proto(#[from] ProtoError),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("it did not answer within {} s", PATIENCE.as_secs())]
    Silent,
    #[error("it said something out of turn: {0}")]
    Odd(&'static str),
}

/// How a call ended, and whether the connection can serve another.
pub(super) struct Ended {
    pub(super) output: ToolOutput,
    pub(super) usable: bool,
}

/// Runs one call.
pub(super) async fn call(
    stream: &mut UnixStream,
    call: &ToolCall,
    ledger: &Ledger,
    cancel: &CancellationToken,
) -> Ended {
    let (frame, bytes) = framed(call);
    let frame = match proto::encode(&frame, &bytes) {
        Ok(frame) => frame,
        Err(error) => {
            return Ended {
                output: failure(format!("the arguments are too large: {error}")),
                usable: true,
            };
        }
    };
    let mut begun = None;
    match exchange(stream, frame, call, ledger, cancel, &mut begun).await {
        Ok((answer, image)) => Ended {
            output: settled(call, ledger, answer, image, begun).await,
            usable: true,
        },
        Err(broken) => Ended {
            output: broken_off(&broken, begun),
            usable: false,
        },
    }
}

/// The call as a frame, its largest argument as bytes.
fn framed(call: &ToolCall) -> (ToWorker, Vec<u8>) {
    let mut args: Map<String, Value> = call.args.clone();
    let largest = args
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.len())))
        .filter(|(_, length)| *length > LARGE)
        .max_by_key(|(_, length)| *length)
        .map(|(name, _)| name);
    let bytes = match largest.as_ref().and_then(|name| args.remove(name)) {
        Some(Value::String(text)) => text.into_bytes(),
        _ => Vec::new(),
    };
    let frame = ToWorker::Call {
        tool: call.tool.to_owned(),
        args,
        bytes_of: largest,
    };
    (frame, bytes)
}

async fn exchange(
    stream: &mut UnixStream,
    frame: Vec<u8>,
    call: &ToolCall,
    ledger: &Ledger,
    cancel: &CancellationToken,
    begun: &mut Option<Begun>,
) -> Result<(Answer, Vec<u8>), Broken> {
    unless_cancelled(cancel, write(stream, &frame)).await?;
    loop {
        // Once a change was let through, its end is waited for: a cancelled
        // call must not leave a change that nobody knows the end of.
        let (head, bytes) = match begun {
            None => unless_cancelled(cancel, read::<FromWorker>(stream)).await?,
            Some(_) => read(stream).await?,
        };
        match head {
            FromWorker::Answer(answer) => return Ok((answer, bytes)),
            FromWorker::Intent(plan) => {
                if begun.is_some() || ledger.readonly || plan.tool != call.tool {
                    return Err(Broken::Odd("a change that nobody asked for"));
                }
                if cancel.is_cancelled() {
                    return Err(Broken::Cancelled);
                }
                let reply = match begin(ledger, &plan, bytes).await {
                    Ok(id) => {
                        *begun = Some(Begun { id, plan });
                        ToWorker::Proceed
                    }
                    Err(reason) => ToWorker::Refuse { reason },
                };
                let frame = proto::encode(&reply, b"").map_err(Broken::Proto)?;
                write(stream, &frame).await?;
            }
            FromWorker::Ready { .. } | FromWorker::Fatal { .. } => {
                return Err(Broken::Odd("a greeting in the middle"));
            }
        }
    }
}

async fn unless_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, Broken>>,
) -> Result<T, Broken> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Broken::Cancelled),
        done = work => done,
    }
}

async fn write(stream: &mut UnixStream, frame: &[u8]) -> Result<(), Broken> {
    tokio::time::timeout(PATIENCE, stream.write_all(frame))
        .await
        .map_err(|_| Broken::Silent)?
        .map_err(|error| Broken::Proto(proto::ended(error)))
}

async fn read<T: DeserializeOwned>(stream: &mut UnixStream) -> Result<(T, Vec<u8>), Broken> {
    let frame = async {
        let mut prefix = [0; proto::PREFIX];
        stream.read_exact(&mut prefix).await.map_err(proto::ended)?;
        let (head, bytes) = proto::lengths(prefix)?;
        let mut body = vec![0; head + bytes];
        stream.read_exact(&mut body).await.map_err(proto::ended)?;
        proto::decode(body, head)
    };
    Ok(tokio::time::timeout(PATIENCE, frame)
        .await
        .map_err(|_| Broken::Silent)??)
}

/// Puts a plan on record; the error goes to the worker and so to the model.
async fn begin(ledger: &Ledger, plan: &Plan, bytes: Vec<u8>) -> Result<String, String> {
    let intent = Intent {
        run_id: ledger.run_id.clone(),
        tool: plan.tool.clone(),
        workspace: ledger.workspace.clone(),
        path: plan.path.clone(),
        sha_before: plan.sha_before,
        sha_after: Some(plan.sha_after),
        pre_image: plan.sha_before.map(|_| bytes),
        mode: plan.mode.filter(|mode| *mode <= 0o7777),
        temp: Some(plan.temp.clone()),
    };
    let journal = Arc::clone(&ledger.journal);
    tokio::task::spawn_blocking(move || journal.begin(&intent))
        .await
        .map_err(|_| "the journal failed".to_owned())?
        .map_err(|error| format!("{error} ({})", error.code()))
}

/// Closes the record and gives the answer its final form.
async fn settled(
    call: &ToolCall,
    ledger: &Ledger,
    answer: Answer,
    image: Vec<u8>,
    begun: Option<Begun>,
) -> ToolOutput {
    let mut output = ToolOutput {
        ok: answer.ok,
        text: aliased(call, &answer, bounded(&answer.text, MAX_TEXT)),
        image: image_of(&answer, image),
        refused: answer.refused.map(|why| bounded(&why, MAX_REFUSAL)),
        ..ToolOutput::default()
    };
    let Some(Begun { id, plan }) = begun else {
        return output;
    };
    let (closed, status, warning) = match answer.outcome {
        Some(Outcome::Committed { warning }) => {
            let warning = warning.map(|why| bounded(&why, MAX_REFUSAL));
            let closed = Closed::Committed {
                warning: warning.clone(),
            };
            (Some(closed), "committed", warning)
        }
        // The file is as it was: the record is settled, and there is nothing to
        // tell of.
        Some(Outcome::Aborted { reason }) => {
            let closed = Closed::Aborted { reason };
            let _ = close(ledger, &id, closed).await;
            return output;
        }
        None => {
            let why = "the worker did not say how the change ended";
            (None, "uncertain", Some(why.to_owned()))
        }
    };
    if let Some(closed) = closed {
        // The intent is on the disk and says all that recovery needs.
        let _ = close(ledger, &id, closed).await;
    }
    output.mutation = Some(mutation(id, plan, status, warning, answer.diff));
    output
}

async fn close(ledger: &Ledger, id: &str, closed: Closed) -> Result<(), ()> {
    let (journal, id) = (Arc::clone(&ledger.journal), id.to_owned());
    tokio::task::spawn_blocking(move || journal.close(&id, closed))
        .await
        .map_err(drop)?
        .map_err(drop)
}

fn mutation(
    id: String,
    plan: Plan,
    status: &str,
    warning: Option<String>,
    diff: Option<String>,
) -> Mutation {
    Mutation {
        transaction_id: id,
        tool: plan.tool,
        path: plan.path,
        status: status.to_owned(),
        warning,
        diff: diff.map(|diff| bounded(&diff, MAX_DIFF)),
    }
}

/// The output of a call whose worker was lost.
fn broken_off(broken: &Broken, begun: Option<Begun>) -> ToolOutput {
    let Some(Begun { id, plan }) = begun else {
        return failure(match broken {
            Broken::Cancelled => "the call was cancelled; nothing was changed".to_owned(),
            _ => format!("the tool worker was lost ({broken}); nothing was changed"),
        });
    };
    let warning = format!(
        "the tool worker was lost ({broken}) while it changed {}",
        plan.path
    );
    ToolOutput {
        text: format!("ERROR: {warning}; look at the file before you go on (change {id})"),
        mutation: Some(mutation(id, plan, "uncertain", Some(warning), None)),
        ..ToolOutput::default()
    }
}

pub(super) fn failure(why: String) -> ToolOutput {
    ToolOutput {
        text: format!("ERROR: {why}"),
        ..ToolOutput::default()
    }
}

/// `read_file` names the file in its header, as it always did.
fn aliased(call: &ToolCall, answer: &Answer, text: String) -> String {
    let path = call.args.get("file_path").and_then(Value::as_str);
    match (call.alias, path) {
        (Some("read_file"), Some(path)) if answer.ok && text.starts_with('[') => {
            format!("{path} {text}")
        }
        _ => text,
    }
}

fn image_of(answer: &Answer, bytes: Vec<u8>) -> Option<Image> {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let media_type = answer.image.as_deref()?;
    known.contains(&media_type).then(|| Image {
        media_type: media_type.to_owned(),
        data: BASE64_STANDARD.encode(bytes),
    })
}

/// At most `limit` characters.
pub(super) fn bounded(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => text[..at].to_owned(),
        None => text.to_owned(),
    }
}

/// A greeting, blocking: used before the socket is handed to tokio.
pub(super) fn greet(
    stream: &mut std::os::unix::net::UnixStream,
    hello: &Hello,
) -> Result<(), String> {
    let hello = ToWorker::Hello(hello.clone());
    let greeted = stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .map_err(ProtoError::Io)
        .and_then(|()| proto::send(stream, &hello, b""))
        .and_then(|()| proto::receive::<FromWorker>(stream));
    match greeted {
        Ok((FromWorker::Ready { version }, _)) if version == proto::VERSION => Ok(()),
        Ok((FromWorker::Fatal { reason }, _)) => Err(bounded(&reason, MAX_REFUSAL)),
        Ok(_) => Err("it is not the worker of this delegate".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
