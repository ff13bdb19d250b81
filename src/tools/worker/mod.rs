//! The file tools, as a process of their own inside the jail.
//!
//! `delegate tool-worker` is started with a socket as standard input. It holds
//! the workspace by descriptor, has no network and no key, and asks before it
//! changes a file: the answer comes when the intent is on the disk outside,
//! where the worker cannot reach. Everything here is synchronous and runs one
//! call at a time, in tests over a socket pair without any jail.

mod edit;
mod find;
mod grep;
mod mutate;
mod notebook;
mod pager;
mod protected;
mod read;
mod text;
mod walk;
mod write;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) use text::lossy;

use rustix::fs::AtFlags;
use serde_json::{Map, Value};

use super::proto::{Answer, FromWorker, Hello, Plan, ProtoError, ToWorker, VERSION, receive, send};
use crate::journal::Digest;
use crate::workspace::{PathError, Place, Root, What};

/// Largest file that a tool changes, and largest content that it writes.
const MAX_CHANGED: u64 = 8 << 20;

/// Longest text of one result, in characters.
const MAX_TEXT: usize = 50_000;

/// How long one search may take before it answers with what it has.
const SEARCH_TIME: Duration = Duration::from_secs(20);

/// The main of `delegate tool-worker`: serves the socket at descriptor 0 until
/// it closes. Never returns.
pub fn worker_main() -> ! {
    let status = match stdin_socket().and_then(|socket| Ok(serve(socket)?)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("tool worker: {error}");
            1
        }
    };
    std::process::exit(status)
}

fn stdin_socket() -> std::io::Result<UnixStream> {
    use std::os::fd::AsFd;
    let stdin = std::io::stdin();
    Ok(UnixStream::from(stdin.as_fd().try_clone_to_owned()?))
}

impl From<ProtoError> for std::io::Error {
    fn from(error: ProtoError) -> Self {
        match error {
            ProtoError::Io(error) => error,
            other => std::io::Error::other(other),
        }
    }
}

/// Serves one client over `socket` until it hangs up.
pub(super) fn serve(mut socket: UnixStream) -> Result<(), ProtoError> {
    let (ToWorker::Hello(hello), _) = receive(&mut socket)? else {
        return Err(ProtoError::Garbled(
            "the first frame is no hello".to_owned(),
        ));
    };
    let mut worker = match Worker::new(hello) {
        Ok(worker) => worker,
        Err(reason) => {
            return send(&mut socket, &FromWorker::Fatal { reason }, b"");
        }
    };
    send(&mut socket, &FromWorker::Ready { version: VERSION }, b"")?;
    loop {
        let (head, bytes) = match receive(&mut socket) {
            Ok(frame) => frame,
            Err(ProtoError::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        let ToWorker::Call {
            tool,
            mut args,
            bytes_of,
        } = head
        else {
            return Err(ProtoError::Garbled("not a call".to_owned()));
        };
        if let Some(name) = bytes_of {
            let text = String::from_utf8(bytes)
                .map_err(|_| ProtoError::Garbled("an argument that is no text".to_owned()))?;
            args.insert(name, Value::String(text));
        }
        let mut wire = Wire {
            socket: &mut socket,
            broken: None,
        };
        let (answer, image) = worker.run(&tool, &args, &mut wire);
        // An answer after a broken exchange could be taken for another one's.
        if let Some(error) = wire.broken {
            return Err(error);
        }
        send(&mut socket, &FromWorker::Answer(answer), &image)?;
    }
}

/// Where a tool asks before it changes a file.
trait Gate {
    /// Returns when the plan is on the disk; `Err` says why it is not, and then
    /// nothing may change. `meanwhile` is done while the other side writes it.
    fn ask(
        &mut self,
        plan: Plan,
        present: Option<&[u8]>,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), String>;
}

/// The gate over the socket.
struct Wire<'a, S> {
    socket: &'a mut S,
    broken: Option<ProtoError>,
}

impl<S: Read + Write> Gate for Wire<'_, S> {
    fn ask(
        &mut self,
        plan: Plan,
        present: Option<&[u8]>,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), String> {
        let plan = FromWorker::Intent(plan);
        let asked = send(self.socket, &plan, present.unwrap_or_default()).and_then(|()| {
            meanwhile();
            receive(self.socket)
        });
        match asked {
            Ok((ToWorker::Proceed, _)) => Ok(()),
            Ok((ToWorker::Refuse { reason }, _)) => Err(reason),
            Ok(_) => {
                self.broken = Some(ProtoError::Garbled("no answer to an intent".to_owned()));
                Err("the worker lost its client".to_owned())
            }
            Err(error) => {
                self.broken = Some(error);
                Err("the worker lost its client".to_owned())
            }
        }
    }
}

/// Why a tool did not do what it was asked.
#[derive(Debug)]
enum Fail {
    /// Policy: the model may not. Shown to people as a refusal.
    Refused(String),
    /// It does not work.
    Error(String),
    /// It was let through and then not done; the file is as it was.
    Aborted(String),
}

impl Fail {
    fn error(text: impl Into<String>) -> Self {
        Fail::Error(text.into())
    }
}

impl From<PathError> for Fail {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Outside { .. } => Fail::Refused(error.to_string()),
            _ => Fail::Error(error.to_string()),
        }
    }
}

/// What a tool that succeeded has to say.
#[derive(Debug, Default)]
struct Done {
    text: String,
    image: Option<(&'static str, Vec<u8>)>,
    outcome: Option<super::proto::Outcome>,
    diff: Option<String>,
}

impl Done {
    fn text(text: impl Into<String>) -> Self {
        Done {
            text: text.into(),
            ..Done::default()
        }
    }
}

/// One run's worker.
struct Worker {
    root: Root,
    /// The folder of whole Bash outputs, and the path by which models name it.
    output: Option<(PathBuf, Root)>,
    readonly: bool,
    vision: bool,
    /// Content that this run has read or written, by canonical relative path.
    known: HashMap<PathBuf, Digest>,
}

impl Worker {
    fn new(hello: Hello) -> Result<Worker, String> {
        if hello.version != VERSION {
            return Err(format!(
                "worker speaks version {VERSION}, client {}",
                hello.version
            ));
        }
        let root = Root::open(&hello.workspace)
            .map_err(|error| format!("the workspace cannot be opened: {error}"))?;
        if root.identity() != (hello.dev, hello.ino) {
            return Err("the workspace is no longer the folder that it was".to_owned());
        }
        let output = hello
            .output
            .map(|output| Ok((output.shown, Root::open(&output.at)?)))
            .transpose()
            .map_err(|error: std::io::Error| format!("the output folder: {error}"))?;
        let worker = Worker {
            root,
            output,
            readonly: hello.readonly,
            vision: hello.vision,
            known: HashMap::new(),
        };
        if !worker.readonly {
            worker.clear(&hello.leftovers);
        }
        Ok(worker)
    }

    /// Removes what a killed run may have left, where it is surely ours: a
    /// lone regular file of our naming. Anything else stays.
    fn clear(&self, leftovers: &[String]) {
        for name in leftovers {
            let Ok(place) = self.root.find_exact(Path::new(name)) else {
                continue;
            };
            let ours = place.rel.file_name().is_some_and(mutate::is_temp_name);
            if let What::File(stat) = &place.what
                && ours
                && stat.st_nlink == 1
            {
                let (folder, name) = self.root.slot(&place);
                let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
            }
        }
    }

    /// Runs one call and puts its end into the form of the wire.
    fn run(
        &mut self,
        tool: &str,
        args: &Map<String, Value>,
        gate: &mut dyn Gate,
    ) -> (Answer, Vec<u8>) {
        let done = match tool {
            "Read" => self.read(args),
            "Glob" => self.glob(args),
            "Grep" => self.grep(args),
            // The policy of a read-only run would refuse as well; this says why.
            _ if self.readonly => Err(Fail::Refused(format!("{tool} in a read-only run"))),
            "Write" => self.write(args, gate),
            "Edit" => self.edit(args, gate),
            "NotebookEdit" => self.notebook(args, gate),
            _ => Err(Fail::error(format!("the worker has no tool {tool:?}"))),
        };
        match done {
            Ok(done) => {
                let (image, bytes) = done.image.unzip();
                let answer = Answer {
                    ok: true,
                    text: done.text,
                    refused: None,
                    image: image.map(str::to_owned),
                    outcome: done.outcome,
                    diff: done.diff,
                };
                (answer, bytes.unwrap_or_default())
            }
            Err(fail) => (failed(fail), Vec::new()),
        }
    }

    /// Where an argument leads in the workspace.
    fn find(&self, asked: &str) -> Result<Place, Fail> {
        Ok(self.root.find(asked)?)
    }
}

fn failed(fail: Fail) -> Answer {
    let answer = |text: &str| Answer {
        text: format!("ERROR: {text}"),
        ..Answer::default()
    };
    match fail {
        Fail::Refused(why) => Answer {
            refused: Some(why.clone()),
            ..answer(&format!("refused: {why}"))
        },
        Fail::Error(why) => answer(&why),
        Fail::Aborted(why) => Answer {
            outcome: Some(super::proto::Outcome::Aborted {
                reason: why.clone(),
            }),
            ..answer(&why)
        },
    }
}

/// A string argument; the client has checked the types.
fn string<'a>(args: &'a Map<String, Value>, name: &str) -> Result<&'a str, Fail> {
    optional(args, name).ok_or_else(|| Fail::error(format!("argument {name} is missing")))
}

fn optional<'a>(args: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}

fn number(args: &Map<String, Value>, name: &str) -> Option<u64> {
    args.get(name).and_then(Value::as_u64)
}

fn flag(args: &Map<String, Value>, name: &str) -> Option<bool> {
    args.get(name).and_then(Value::as_bool)
}

#[cfg(test)]
mod tests;
