//! Profiles as people write them.
//!
//! A profile is a TOML file: what it extends, and grants that each say why.
//! This room reads and merges them; [`resolve`](crate::resolve) turns one into
//! a [`Policy`](crate::Policy) on this host. Profiles come from the binary and
//! from folders of the user's configuration, never from a workspace.

mod error;
mod set;
mod text;
mod values;
mod vars;

pub use error::{Place, ProfileError};
pub use set::{Profile, ProfileSet, builtin};
pub use text::{EnvLines, GrantLine, Line, ToolchainFile};
pub use values::Toolchains;
pub(crate) use vars::Variables;

#[cfg(test)]
mod tests;
