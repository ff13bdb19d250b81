//! The tools of one run: the worker in its cell, Bash in its own, the journal
//! between.

use std::fs;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::{Duration, SystemTime};

use jail::{Enforcement, Form, Held};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::bash::{Bash, CellGround};
use super::client::{self, Ledger};
use super::proto::Hello;
use super::start::{self, Starter};
use super::{Capability, ToolCall, ToolOutput};
use crate::journal::{Journal, JournalError};
use crate::store::{StateDir, StoreError, make_folder};
use crate::workspace::{Workspace, WorkspaceError};

/// Under this path Read, and Bash, find the whole outputs of Bash.
pub(super) const OUTPUT: &str = "/run/delegate/output";

/// Folders of runs that were killed are removed when they are older.
const STALE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Everything that a [`Toolbox`] is made of.
#[derive(Clone, Debug)]
pub struct ToolboxSetup {
    /// The workspace.
    pub workspace: PathBuf,
    /// What the run may do.
    pub capability: Capability,
    /// ULID of the run.
    pub run_id: String,
    /// State folder.
    pub state_dir: PathBuf,
    /// The journal in it.
    pub journal: Arc<Journal>,
    /// Deadline of a Bash call that names none.
    pub bash_timeout: Duration,
    /// Whether the model takes images.
    pub vision: bool,
    /// The binary that becomes cells and workers.
    pub launcher: jail::Launcher,
    /// This host and user.
    pub host: jail::Host,
    /// Which refusals of Bash are recorded.
    pub observe: jail::Observe,
}

/// Why the tools of a run cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolboxError {
    /// The workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The state folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A profile could not be resolved on this host.
    #[error(transparent)]
    Profile(#[from] jail::ProfileError),
    /// A jail could not be made.
    #[error(transparent)]
    Jail(#[from] jail::JailError),
    /// The binary could be changed by the run that it guards.
    #[error("delegate itself ({}) lies in the workspace, where a coding run could change it; run an installed copy, or work read-only", .program.display())]
    Inside {
        /// The binary.
        program: PathBuf,
    },
    /// The worker did not start.
    #[error("the tool worker did not start: {why}")]
    Worker {
        /// What it or the connection said.
        why: String,
    },
    /// The run has no usable id.
    #[error("{id:?} cannot name a run")]
    RunId {
        /// As given.
        id: String,
    },
}

impl ToolboxError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ToolboxError::Workspace(error) => error.code(),
            ToolboxError::Store(error) => error.code(),
            ToolboxError::Journal(error) => error.code(),
            ToolboxError::Profile(error) => error.code(),
            ToolboxError::Jail(error) => error.code(),
            ToolboxError::Inside { .. } => "binary_in_workspace",
            ToolboxError::Worker { .. } => "tool_worker",
            ToolboxError::RunId { .. } => "run_id",
        }
    }
}

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

        let starter = start::Jailed::prepare(&setup, &workspace, outputs.as_deref())?;
        let mut enforcement = starter.enforcement().clone();
        let bash = match &outputs {
            Some(outputs) => {
                let plan = start::bash_plan(&setup, &workspace, &state, outputs)?;
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

/// The folder of a run's whole outputs; removed with the run.
#[derive(Debug)]
struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    fn make(state: &StateDir, run_id: &str) -> Result<RunFolder, ToolboxError> {
        // It becomes a folder name.
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if run_id.is_empty() || run_id.len() > 128 || !run_id.chars().all(plain) {
            return Err(ToolboxError::RunId {
                id: run_id.to_owned(),
            });
        }
        make_folder(state.root())?;
        let path = state.run(run_id);
        if let Some(runs) = path.parent() {
            sweep(runs);
        }
        let folder = RunFolder { path };
        make_folder(&folder.outputs())?;
        Ok(folder)
    }

    fn outputs(&self) -> PathBuf {
        self.path.join("output")
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what runs that were killed left behind long ago.
fn sweep(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else {
        return;
    };
    for entry in entries.flatten() {
        let age = entry
            .metadata()
            .and_then(|found| found.modified())
            .map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        if age.is_ok_and(|age| age > STALE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
