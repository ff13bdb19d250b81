//! The Linux backend: namespaces, a private root, Landlock and seccomp.
//!
//! [`plan`] compiles a policy, [`cell`] is the opener's side, [`init`] the first
//! process of the cell, [`launch`] the way of one call from fork to exec; the
//! others hold one mechanism each.

mod cell;
mod facts;
mod failure;
mod init;
mod landlock;
mod launch;
mod mounts;
mod narrow;
mod observe;
mod plan;
mod seccomp;
mod sweep;
mod wire;

pub use cell::{Cell, Child, Killer};
pub use facts::{Survey, survey};
pub use init::enter_if_asked;
pub use plan::{Plan, prepare, prepare_form};
