//! Agent definitions: where they are, what they say, what they restrict.
//!
//! A definition is a Markdown file with a YAML header. Those of a project come
//! from whoever wrote the project and are taken as untrusted text: the header
//! is read with bounds, a file is never followed out of the workspace, and
//! `tools` / `disallowedTools` can only take tools away. The faces call this.

mod header;
mod lookup;

pub use header::restrict;
pub use lookup::{Agent, AgentError, Listed, Listing, Source, find, list};
