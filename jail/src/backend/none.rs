//! No backend: every plan is refused. There is no way to run without a jail.

use serde::Serialize;

use crate::child::{Command, Launcher};
use crate::error::JailError;
use crate::guarantee::{Enforcement, Form};
use crate::policy::Policy;
use crate::report::Report;

/// Never made: [`prepare`] refuses.
#[derive(Clone, Debug)]
pub enum Plan {}

/// Never made.
#[derive(Debug)]
pub enum Cell {}

/// Never made.
#[derive(Debug)]
pub enum Child {}

/// Never made.
#[derive(Clone, Debug)]
pub enum Killer {}

/// What the machine can do: nothing yet.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// What a person can change.
    pub advice: Vec<String>,
}

/// There is nothing to enter.
pub fn enter_if_asked() {}

/// # Errors
///
/// Always [`JailError::Unsupported`].
pub fn prepare(_: &Policy) -> Result<Plan, JailError> {
    Err(JailError::Unsupported)
}

/// # Errors
///
/// Always [`JailError::Unsupported`].
pub fn prepare_form(_: &Policy, _: Form) -> Result<Plan, JailError> {
    Err(JailError::Unsupported)
}

/// Says that there is no backend here.
pub fn survey() -> Survey {
    Survey {
        advice: vec!["This system has no jail backend yet: use Linux 5.13 or later.".to_owned()],
    }
}

impl Plan {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        match *self {}
    }

    /// The form.
    pub fn form(&self) -> Form {
        match *self {}
    }

    /// What is enforced.
    pub fn enforcement(&self) -> &Enforcement {
        match *self {}
    }

    /// The steps.
    pub fn steps(&self) -> Vec<String> {
        match *self {}
    }

    /// # Errors
    ///
    /// Never called.
    pub fn open(&self, _: &Launcher) -> Result<Cell, JailError> {
        match *self {}
    }
}

impl Cell {
    /// What is enforced.
    pub fn enforcement(&self) -> &Enforcement {
        match *self {}
    }

    /// # Errors
    ///
    /// Never called.
    pub fn spawn(&self, _: Command) -> Result<Child, JailError> {
        match *self {}
    }
}

impl Child {
    /// # Errors
    ///
    /// Never called.
    pub fn wait(self) -> Result<Report, JailError> {
        match self {}
    }

    /// A handle.
    pub fn killer(&self) -> Killer {
        match *self {}
    }
}

impl Killer {
    /// Never called.
    pub fn kill(&self) {
        match *self {}
    }
}
