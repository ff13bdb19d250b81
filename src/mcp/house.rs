//! The rooms of the binary: from a call to a run, by way of configuration,
//! workspace, lease and journal.
//!
//! Environment and flags are those of the server's start; the files of the
//! configuration are read at every call, so that a mended one helps at once.

mod health;
mod prepare;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use super::rooms::{
    Acknowledged, AgentList, AgentOrder, BackendStatus, Boxed, DeepseekOrder, PendingChange,
    Prepared, Rooms, Standing, Trouble,
};
use crate::config::{Config, ConfigError, Sources};
use crate::journal::{Journal, JournalError};
use crate::run::{self, Deps, RunEvent, RunOutcome, RunSpec};
use crate::store::{make_folder, open_file};
use crate::tools::Capability;
use crate::workspace::{Busy, Lease, Workspace, WorkspaceError, WorkspaceId};

/// What the server was started with.
#[derive(Clone)]
pub struct Flags {
    /// Flags that stand for settings: name, value, how the person wrote it.
    pub settings: Vec<(String, String, String)>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The home folder, if it is known.
    pub home: Option<PathBuf>,
    /// The working directory.
    pub cwd: PathBuf,
    /// `--workspace`.
    pub workspace: Option<PathBuf>,
    /// State folder, if it is known.
    pub state_dir: Option<PathBuf>,
    /// Folder of the execution leases, if not the one shared by all servers.
    pub locks_dir: Option<PathBuf>,
    /// The program that becomes the first process of a jail.
    pub launcher: jail::Launcher,
    /// What policies are resolved against.
    pub host: jail::Host,
}

/// The rooms below, wired together.
pub struct House {
    flags: Flags,
    journal: OnceLock<Arc<Journal>>,
    /// DeepSeek workspaces as they were when first used: another folder under
    /// the same path is not what the host was told of.
    seen: Mutex<BTreeMap<PathBuf, WorkspaceId>>,
}

/// Most answers kept whole; older ones go.
const KEPT_ANSWERS: usize = 100;

const NO_HOME: &str =
    "HOME is not set and the user database names no home folder; pass HOME to the server";

impl House {
    /// Touches nothing.
    pub fn new(flags: Flags) -> House {
        House {
            flags,
            journal: OnceLock::new(),
            seen: Mutex::new(BTreeMap::new()),
        }
    }

    fn home(&self) -> Result<&Path, Trouble> {
        self.flags
            .home
            .as_deref()
            .ok_or_else(|| Trouble::NotConfigured(NO_HOME.to_owned()))
    }

    fn state_dir(&self) -> Result<&Path, Trouble> {
        self.flags
            .state_dir
            .as_deref()
            .ok_or_else(|| Trouble::NotConfigured(NO_HOME.to_owned()))
    }

    fn config(&self) -> Result<Config, Trouble> {
        let read = || -> Result<Config, ConfigError> {
            let mut sources = Sources::read(
                self.flags.home.as_deref().unwrap_or(Path::new("/")),
                self.flags.env.clone(),
            )?;
            sources.flags = self.flags.settings.clone();
            Config::load(sources)
        };
        self.home()?;
        read().map_err(not_configured)
    }

    fn journal(&self) -> Result<Arc<Journal>, Trouble> {
        if let Some(journal) = self.journal.get() {
            return Ok(Arc::clone(journal));
        }
        let journal = Journal::open(self.state_dir()?).map_err(|error| blocked(&error))?;
        Ok(Arc::clone(self.journal.get_or_init(|| Arc::new(journal))))
    }

    fn lease(&self, workspace: &Workspace, capability: Capability) -> Result<Lease, Trouble> {
        let locks = match &self.flags.locks_dir {
            Some(locks) => locks.clone(),
            // Where the old server has its own, so that each sees the other.
            None => self.home()?.join(".deepseek-mcp/locks"),
        };
        let shared = capability == Capability::Readonly;
        Lease::acquire(&locks, workspace, shared).map_err(|busy| match busy {
            Busy::Taken { .. } => Trouble::Busy(busy.to_string()),
            _ => Trouble::Blocked(busy.to_string()),
        })
    }

    fn open(&self, path: &Path) -> Result<Workspace, WorkspaceError> {
        Workspace::open_for(path, self.flags.home.as_deref())
    }

    /// The workspace of the DeepSeek tools.
    fn deepseek_workspace(&self, config: &Config) -> Result<Workspace, Trouble> {
        let path = match &self.flags.workspace {
            Some(path) => self.flags.cwd.join(path),
            None => {
                config
                    .deepseek_workspace(&self.flags.cwd)
                    .map_err(not_configured)?
                    .value
            }
        };
        let workspace = self
            .open(&path)
            .map_err(|error| Trouble::NotConfigured(error.to_string()))?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = seen
            .entry(workspace.root().to_owned())
            .or_insert_with(|| workspace.id().clone());
        if first != workspace.id() {
            return Err(Trouble::Blocked(format!(
                "the workspace {} is not the folder that it was when this server first used it; restart the server",
                workspace.root().display()
            )));
        }
        Ok(workspace)
    }
}

fn not_configured(error: ConfigError) -> Trouble {
    Trouble::NotConfigured(error.to_string())
}

fn blocked(error: &JournalError) -> Trouble {
    match error {
        JournalError::BadId { .. } | JournalError::TooManyIds { .. } => {
            Trouble::Invalid(error.to_string())
        }
        _ => Trouble::Blocked(error.to_string()),
    }
}

impl Rooms for House {
    fn agent(&self, order: &AgentOrder) -> Result<Prepared, Trouble> {
        self.prepare_agent(order)
    }

    fn deepseek(&self, order: &DeepseekOrder) -> Result<Prepared, Trouble> {
        self.prepare_deepseek(order)
    }

    fn execute<'a>(
        &'a self,
        spec: RunSpec,
        events: &'a mut (dyn FnMut(RunEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> Boxed<'a, Result<RunOutcome, Trouble>> {
        Box::pin(async move {
            let deps = Deps {
                journal: self.journal()?,
                launcher: self.flags.launcher.clone(),
                host: self.flags.host.clone(),
            };
            Ok(run::execute(spec, &deps, events, cancel).await)
        })
    }

    fn standing(&self) -> Standing {
        self.deepseek_standing()
    }

    fn pending(&self) -> Result<Vec<PendingChange>, Trouble> {
        let workspace = self.deepseek_workspace(&self.config()?)?;
        let pending = self
            .journal()?
            .pending(workspace.id(), workspace.root())
            .map_err(|error| blocked(&error))?;
        Ok(pending
            .into_iter()
            .map(|change| PendingChange {
                transaction_id: change.transaction_id,
                tool: change.tool,
                path: change.path,
                sha256: change.sha256.map(|digest| digest.to_string()),
                status: change.status.name().to_owned(),
                warnings: change.warnings,
                order: change.order,
                at_ms: change.at_ms,
                run_id: change.run_id,
                sha256_before: change.sha256_before.map(|digest| digest.to_string()),
            })
            .collect())
    }

    fn acknowledge(&self, ids: &[String]) -> Result<Acknowledged, Trouble> {
        let workspace = self.deepseek_workspace(&self.config()?)?;
        let _lease = self.lease(&workspace, Capability::Coding)?;
        let done = self
            .journal()?
            .acknowledge(workspace.id(), ids)
            .map_err(|error| blocked(&error))?;
        Ok(Acknowledged {
            acknowledged: done.acknowledged,
            pending: done.remaining,
            unknown: done.unknown,
        })
    }

    fn agents(&self) -> AgentList {
        self.global_agents()
    }

    fn status(&self) -> Boxed<'_, BackendStatus> {
        Box::pin(self.backend_status())
    }

    fn keep_answer(&self, run_id: &str, text: &str) -> Option<PathBuf> {
        let folder = self.flags.state_dir.as_ref()?.join("answers");
        make_folder(&folder).ok()?;
        forget_old(&folder);
        let path = folder.join(format!("{run_id}.txt"));
        let mut file = open_file(&path).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        Some(path)
    }
}

/// Leaves room for one more answer. Names begin with a ULID: their order is
/// that of time.
fn forget_old(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    let surplus = (names.len() + 1).saturating_sub(KEPT_ANSWERS);
    for name in names.iter().take(surplus) {
        let _ = std::fs::remove_file(folder.join(name));
    }
}
