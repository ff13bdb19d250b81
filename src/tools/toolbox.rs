//! The tools of one run: the worker in its cell, Bash in its own, the journal
//! between.

mod folder;
mod setup;

pub use setup::{ToolboxError, ToolboxSetup};

use std::fs;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as StdMutex};

use jail::{Enforcement, Form, Held};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::bash::{Bash, CellGround};
use super::client::{self, Ledger};
use super::proto::Hello;
use super::start::{self, Starter};
use super::{Capability, ToolCall, ToolOutput};
use crate::store::StateDir;
use crate::workspace::Workspace;
use folder::RunFolder;

/// Under this path Read, and Bash, find the whole outputs of Bash.
pub(super) const OUTPUT: &str = "/run/delegate/output";

/// The tools of one run.
pub struct Toolbox {
    workspace: Workspace,
    enforcement: Enforcement,
    ledger: Ledger,
    files: Mutex<Files>,
    bash: Option<Bash>,
    // Declared last: removed when everything that writes in it is dead.
    _folder: RunFolder,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolbox")
            .field("workspace", &self.workspace)
            .field("run", &self.ledger.run_id)
            .finish_non_exhaustive()
    }
}

/// The worker: started, or to be started at the next call.
struct Files {
    starter: Arc<dyn Starter>,
    hello: Hello,
    live: Option<Live>,
}

struct Live {
    stream: Stream,
    // Dropping it ends the worker.
    hold: start::Hold,
}

/// A socket belongs to tokio from its first call on; opening is done outside.
enum Stream {
    Fresh(StdStream),
    Ready(UnixStream),
}

impl Toolbox {
    /// Makes the policies, opens the worker's cell and greets the worker.
    /// Blocks for some milliseconds.
    pub fn open(setup: ToolboxSetup) -> Result<Toolbox, ToolboxError> {
        Self::open_form(setup, None)
    }

    /// The same in a form of the jail that the caller names.
    pub fn open_form(setup: ToolboxSetup, form: Option<Form>) -> Result<Toolbox, ToolboxError> {
        let workspace = Workspace::open_for(&setup.workspace, Some(&setup.host.home))?;
        let readonly = setup.capability == Capability::Readonly;
        let program = &setup.launcher.program;
        let canonical = fs::canonicalize(program).unwrap_or_else(|_| program.clone());
        if !readonly && canonical.starts_with(workspace.root()) {
            return Err(ToolboxError::Inside { program: canonical });
        }
        let state = StateDir::new(&setup.state_dir);
        let folder = RunFolder::make(&state, &setup.run_id)?;
        let outputs = (!readonly).then(|| folder.outputs());

        let starter = start::Jailed::prepare(&setup, &workspace, outputs.as_deref(), form)?;
        let mut enforcement = starter.enforcement().clone();
        let bash = match &outputs {
            Some(outputs) => {
                let plan = start::bash_plan(&setup, &workspace, &state, outputs, form)?;
                enforcement = weaker(&enforcement, plan.enforcement());
                let policy = plan.policy().clone();
                let ground = CellGround {
                    plan,
                    launcher: setup.launcher.clone(),
                    cell: StdMutex::new(None),
                };
                Some(Bash::new(
                    Arc::new(ground),
                    policy,
                    workspace.root().to_owned(),
                    setup.bash_timeout,
                    outputs.clone(),
                    PathBuf::from(OUTPUT),
                ))
            }
            None => None,
        };
        let leftovers = match readonly {
            true => Vec::new(),
            false => setup.journal.leftovers(workspace.id())?,
        };
        let hello = start::hello(&setup, &workspace, leftovers);
        Toolbox::assemble(
            setup,
            workspace,
            enforcement,
            Arc::new(starter),
            hello,
            bash,
            folder,
        )
    }

    fn assemble(
        setup: ToolboxSetup,
        workspace: Workspace,
        enforcement: Enforcement,
        starter: Arc<dyn Starter>,
        hello: Hello,
        bash: Option<Bash>,
        folder: RunFolder,
    ) -> Result<Toolbox, ToolboxError> {
        let live = starter.start(&hello)?;
        let ledger = Ledger {
            journal: setup.journal,
            workspace: workspace.id().clone(),
            run_id: setup.run_id,
            readonly: setup.capability == Capability::Readonly,
        };
        Ok(Toolbox {
            workspace,
            enforcement,
            ledger,
            files: Mutex::new(Files {
                starter,
                hello,
                live: Some(Live::fresh(live)),
            }),
            bash,
            _folder: folder,
        })
    }

    /// What the kernel enforces of every call; where the worker's cell and the
    /// Bash cell differ, the weaker.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// Runs a call. Never fails: what went wrong is in the output, for the
    /// model and for people.
    pub async fn call(
        &self,
        call: &ToolCall,
        _turn: u32,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        if let Err(error) = self.workspace.recheck() {
            return client::failure(error.to_string());
        }
        match (&self.bash, call.tool) {
            (Some(bash), "Bash") => bash.call(call, cancel).await,
            (None, "Bash") => refused("Bash in a read-only run"),
            _ => self.file_call(call, cancel).await,
        }
    }

    async fn file_call(&self, call: &ToolCall, cancel: &CancellationToken) -> ToolOutput {
        let mut files = tokio::select! {
            biased;
            () = cancel.cancelled() => return client::failure("the call was cancelled".to_owned()),
            files = self.files.lock() => files,
        };
        // Taken out, and put back only when it can serve again: a call that is
        // dropped half-way must not leave its answer for the next one.
        let mut live = match files.live.take() {
            Some(live) => live,
            None => match files.start().await {
                Ok(live) => live,
                Err(why) => return client::failure(why),
            },
        };
        let stream = match live.stream.ready() {
            Ok(stream) => stream,
            Err(error) => return client::failure(format!("the tool worker: {error}")),
        };
        let ended = client::call(stream, call, &self.ledger, cancel).await;
        if ended.usable {
            files.live = Some(live);
            return ended.output;
        }
        let words = live.hold.last_words();
        if words.is_empty() {
            return ended.output;
        }
        let mut output = ended.output;
        output.text = format!("{} [{words}]", output.text);
        output
    }

    /// Ends the worker, the Bash cell and everything in them.
    pub async fn close(self) {
        // Waiting for the death of a tree blocks.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Files {
    /// Starts the worker again. It has forgotten which files the run has read,
    /// so a Write may have to ask for a Read once more.
    async fn start(&self) -> Result<Live, String> {
        let (starter, hello) = (Arc::clone(&self.starter), self.hello.clone());
        tokio::task::spawn_blocking(move || starter.start(&hello))
            .await
            .map_err(|_| "the tool worker could not be started".to_owned())?
            .map(Live::fresh)
            .map_err(|error| error.to_string())
    }
}

impl Live {
    fn fresh((stream, hold): (StdStream, start::Hold)) -> Live {
        Live {
            stream: Stream::Fresh(stream),
            hold,
        }
    }
}

impl Stream {
    fn ready(&mut self) -> std::io::Result<&mut UnixStream> {
        if let Stream::Fresh(stream) = self {
            let stream = stream.try_clone()?;
            stream.set_nonblocking(true)?;
            *self = Stream::Ready(UnixStream::from_std(stream)?);
        }
        match self {
            Stream::Ready(stream) => Ok(stream),
            Stream::Fresh(_) => Err(std::io::ErrorKind::NotConnected.into()),
        }
    }
}

fn refused(what: &str) -> ToolOutput {
    ToolOutput {
        refused: Some(what.to_owned()),
        ..client::failure(format!("refused: {what}"))
    }
}

/// For each guarantee the weaker answer of two.
fn weaker(one: &Enforcement, other: &Enforcement) -> Enforcement {
    let mut both = one.clone();
    for (guarantee, held) in &other.guarantees {
        let mine: &mut Held = both
            .guarantees
            .entry(*guarantee)
            .or_insert_with(|| held.clone());
        if held.strength < mine.strength {
            *mine = held.clone();
        }
    }
    if other.form == Form::Narrow {
        both.form = Form::Narrow;
    }
    both
}

#[cfg(test)]
mod tests;
