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
mod explain;
mod gitmeta;
mod guarantee;
mod locate;
mod policy;
mod profile;
mod report;
mod resolve;
#[cfg(target_os = "linux")]
mod sys;
mod toolchain;

pub use backend::{
    Cell, Child, Killer, Plan, Survey, enter_if_asked, prepare, prepare_form, survey,
};
pub use child::{Command, Launcher};
pub use error::JailError;
pub use explain::{Explanation, PathAnswer, Row, explain, explain_path};
pub use guarantee::{Enforcement, Form, Guarantee, Held, Strength};
pub use locate::refused;
pub use policy::{
    Access, Grant, Kind, Limits, Link, Network, Observe, Origin, Policy, Protect, Relax, Verdict,
};
pub use profile::{Place, Profile, ProfileError, ProfileSet, builtin};
pub use report::{Denial, Exit, Report, Spent};
pub use resolve::{ExtraGrant, Host, Note, Request, Resolved, resolve, resolve_noted};
