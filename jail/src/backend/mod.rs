//! Stand-in with the signatures of the backend, until the real one is merged.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::guarantee::{Enforcement, Form};
use crate::policy::Policy;
use crate::report::Report;

#[derive(Clone, Debug)]
pub struct Launcher {
    pub program: PathBuf,
}

#[derive(Debug)]
pub struct Command {
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: Option<PathBuf>,
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub deadline: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
pub enum JailError {
    #[error("no jail backend for this operating system; nothing was run")]
    Unsupported,
}

impl JailError {
    pub fn code(&self) -> &'static str {
        "jail_unsupported"
    }
}

pub struct Plan(Enforcement);
pub struct Cell(Enforcement);
pub struct Child;
#[derive(Clone)]
pub struct Killer;

impl Plan {
    pub fn enforcement(&self) -> &Enforcement {
        &self.0
    }
    pub fn steps(&self) -> Vec<String> {
        Vec::new()
    }
    pub fn open(&self, _: &Launcher) -> Result<Cell, JailError> {
        Err(JailError::Unsupported)
    }
}

impl Cell {
    pub fn enforcement(&self) -> &Enforcement {
        &self.0
    }
    pub fn spawn(&self, _: Command) -> Result<Child, JailError> {
        Err(JailError::Unsupported)
    }
}

impl Child {
    pub fn wait(self) -> Result<Report, JailError> {
        Err(JailError::Unsupported)
    }
    pub fn killer(&self) -> Killer {
        Killer
    }
}

impl Killer {
    pub fn kill(&self) {}
}

#[derive(Clone, Debug, Serialize)]
pub struct Survey {}

pub fn enter_if_asked() {}
pub fn prepare(_: &Policy) -> Result<Plan, JailError> {
    Err(JailError::Unsupported)
}
pub fn prepare_form(_: &Policy, _: Form) -> Result<Plan, JailError> {
    Err(JailError::Unsupported)
}
pub fn survey() -> Survey {
    Survey {}
}
