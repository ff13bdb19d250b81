//! Starting the worker and preparing the cells.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jail::{
    Access, Command, Enforcement, ExtraGrant, Form, JailError, Observe, Plan, Policy, Request,
};
use rustix::pipe::PipeFlags;

use super::Capability;
use super::client;
use super::proto::{Hello, Output, VERSION};
use super::toolbox::{OUTPUT, ToolboxError, ToolboxSetup};
use crate::store::{StateDir, make_folder};
use crate::workspace::Workspace;

/// Where the jail shows delegate's own binary.
const BINARY: &str = "/run/delegate/delegate";

/// A worker lives as long as its run; the run has a limit of its own.
const LIFE: Duration = Duration::from_secs(366 * 24 * 3600);

/// How much of a dead worker's last words is repeated.
const MAX_WORDS: usize = 500;

/// Keeps a worker alive; dropping it ends it.
pub(super) struct Hold {
    /// In this order: the child's end ends the cell, then the cell is waited for.
    _child: Option<jail::Child>,
    _cell: Option<jail::Cell>,
    stderr: Option<File>,
}

impl Hold {
    /// A worker that needs no holding: the tests' thread ends with its socket.
    #[cfg(test)]
    pub(super) fn nothing() -> Hold {
        Hold {
            _child: None,
            _cell: None,
            stderr: None,
        }
    }

    /// What it wrote to its standard error, as one line.
    pub(super) fn last_words(&mut self) -> String {
        let mut bytes = vec![0; 4096];
        // Not blocking: whatever is there.
        let length = self
            .stderr
            .as_mut()
            .and_then(|stderr| stderr.read(&mut bytes).ok())
            .unwrap_or(0);
        let words: String = String::from_utf8_lossy(&bytes[..length])
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        client::bounded(words.trim(), MAX_WORDS)
    }
}

/// Starts a worker and greets it.
pub(super) trait Starter: Send + Sync {
    /// Gives the greeted socket and what keeps the worker alive. Blocks.
    fn start(&self, hello: &Hello) -> Result<(UnixStream, Hold), ToolboxError>;
}

/// Starts workers in a cell of their own.
pub(super) struct Jailed {
    plan: Plan,
    launcher: jail::Launcher,
    outputs: Option<PathBuf>,
}

impl Jailed {
    pub(super) fn prepare(
        setup: &ToolboxSetup,
        workspace: &Workspace,
        outputs: Option<&Path>,
        form: Option<Form>,
    ) -> Result<Jailed, ToolboxError> {
        let profile = match setup.capability {
            Capability::Coding => "tools",
            Capability::Readonly => "tools-readonly",
        };
        let mut extra = vec![ExtraGrant {
            path_inside: PathBuf::from(BINARY),
            host: setup.launcher.program.clone(),
            access: Access::READ | Access::EXECUTE,
        }];
        extra.extend(outputs.map(output_grant));
        let request = Request {
            profile: profile.to_owned(),
            workspace: Some(workspace.root().to_owned()),
            observe: Some(Observe::Off),
            extra,
            ..Request::default()
        };
        let policy = jail::resolve(&jail::ProfileSet::builtin(), &request, &setup.host)?;
        Ok(Jailed {
            plan: plan(&policy, form)?,
            launcher: setup.launcher.clone(),
            outputs: outputs.map(Path::to_owned),
        })
    }

    pub(super) fn enforcement(&self) -> &Enforcement {
        self.plan.enforcement()
    }
}

impl Starter for Jailed {
    fn start(&self, hello: &Hello) -> Result<(UnixStream, Hold), ToolboxError> {
        let mut hello = hello.clone();
        // Without a mount namespace things are where they are on the host.
        hello.output = self.outputs.as_ref().map(|host| Output {
            shown: PathBuf::from(OUTPUT),
            at: match self.plan.form() {
                Form::Full => PathBuf::from(OUTPUT),
                _ => host.clone(),
            },
        });
        let broken = |source| {
            ToolboxError::Jail(JailError::Step {
                step: "make the tool worker's descriptors".to_owned(),
                source,
            })
        };
        let (mut ours, theirs) = UnixStream::pair().map_err(broken)?;
        let (stderr, theirs_err) = pipe().map_err(broken)?;
        let cell = self.plan.open(&self.launcher)?;
        let null = File::options()
            .write(true)
            .open("/dev/null")
            .map_err(broken)?;
        let child = cell.spawn(Command {
            argv: vec![BINARY.into(), "tool-worker".into()],
            env: Vec::new(),
            cwd: None,
            stdin: theirs.into(),
            stdout: null.into(),
            stderr: theirs_err,
            deadline: Some(LIFE),
        })?;
        let mut hold = Hold {
            _child: Some(child),
            _cell: Some(cell),
            stderr: Some(File::from(stderr)),
        };
        match client::greet(&mut ours, &hello) {
            Ok(()) => Ok((ours, hold)),
            Err(why) => {
                let words = hold.last_words();
                let why = if words.is_empty() {
                    why
                } else {
                    format!("{why} ({words})")
                };
                Err(ToolboxError::Worker { why })
            }
        }
    }
}

/// The greeting; where the outputs are is the starter's matter.
pub(super) fn hello(setup: &ToolboxSetup, workspace: &Workspace, leftovers: Vec<String>) -> Hello {
    Hello {
        version: VERSION,
        workspace: workspace.root().to_owned(),
        dev: workspace.id().dev,
        ino: workspace.id().ino,
        readonly: setup.capability == Capability::Readonly,
        vision: setup.vision,
        output: None,
        leftovers,
    }
}

/// The plan of the Bash cell.
pub(super) fn bash_plan(
    setup: &ToolboxSetup,
    workspace: &Workspace,
    state: &StateDir,
    outputs: &Path,
    form: Option<Form>,
) -> Result<Plan, ToolboxError> {
    let home = state.home(&workspace.id().digest());
    make_folder(&home)?;
    let request = Request {
        profile: "bash".to_owned(),
        workspace: Some(workspace.root().to_owned()),
        observe: Some(setup.observe),
        private_home: Some(home),
        extra: vec![output_grant(outputs)],
        ..Request::default()
    };
    let policy = jail::resolve(&jail::ProfileSet::builtin(), &request, &setup.host)?;
    Ok(plan(&policy, form)?)
}

fn plan(policy: &Policy, form: Option<Form>) -> Result<Plan, JailError> {
    match form {
        Some(form) => jail::prepare_form(policy, form),
        None => jail::prepare(policy),
    }
}

fn output_grant(outputs: &Path) -> ExtraGrant {
    ExtraGrant {
        path_inside: PathBuf::from(OUTPUT),
        host: outputs.to_owned(),
        access: Access::READ,
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}
