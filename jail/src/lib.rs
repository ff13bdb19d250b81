//! The process boundary of delegate.
//!
//! A [`Profile`] (text, as people write it) is resolved on this host into a
//! [`Policy`] (facts), which a backend compiles into a [`Plan`] (named steps),
//! opens as a [`Cell`] (the place in which the calls of one run live) and
//! spawns a [`Command`] in, giving a [`Child`] and in the end a [`Report`].
//!
//! This crate knows no model, no MCP and no job. It is synchronous, reads no
//! environment variable and prints nothing.

mod backend;
mod child;
mod error;
mod guarantee;
mod policy;
mod report;
#[cfg(target_os = "linux")]
mod sys;

pub use backend::{
    Cell, Child, Killer, Plan, Survey, enter_if_asked, prepare, prepare_form, survey,
};
pub use child::{Command, Launcher};
pub use error::JailError;
pub use guarantee::{Enforcement, Form, Guarantee, Held, Strength};
pub use policy::{
    Access, Grant, Kind, Limits, Link, Network, Observe, Origin, Policy, Protect, Relax, Verdict,
};
pub use report::{Denial, Exit, Report, Spent};
