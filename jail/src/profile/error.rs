//! Why a profile could not be read or resolved.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where in a profile something stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// `profiles/base.toml` (built in), an absolute path, or `command line`.
    pub file: String,
    /// 1-based line; 0 where there is no line.
    pub line: u32,
}

impl Place {
    /// A place on the command line or in a request.
    pub fn request() -> Place {
        Place {
            file: "command line".to_owned(),
            line: 0,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.file)
        } else {
            write!(f, "{}:{}", self.file, self.line)
        }
    }
}

/// Why a profile could not be read, or not be made a policy on this host.
/// Every variant means that nothing was run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No built-in and no own profile has this name.
    #[error(
        "no profile is called {name:?}; there are: {known} (your own are NAME.toml files in ~/.config/delegate/profiles)"
    )]
    NotFound {
        /// As asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A profile name that could not be a file name.
    #[error("{name:?} is no profile name; use small letters, digits, - and _")]
    Name {
        /// As asked for.
        name: String,
    },
    /// A profile file exists and cannot be read.
    #[error("cannot read the profile {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The text is no profile.
    #[error("{at}: {what}")]
    Syntax {
        /// File and line.
        at: Place,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// A profile extends itself.
    #[error("{at}: profiles extend each other in a circle: {chain}")]
    Cycle {
        /// The line that closes the circle.
        at: Place,
        /// `a -> b -> a`.
        chain: String,
    },
    /// A variable that is not known there.
    #[error("{at}: ${{{name}}} is not known here; there are: {known}")]
    Variable {
        /// File and line.
        at: Place,
        /// Its name.
        name: String,
        /// The variables that exist.
        known: String,
    },
    /// A path that cannot be a grant as it is written.
    #[error("{at}: {} {what}", .path.display())]
    Path {
        /// File and line.
        at: Place,
        /// The path, variables expanded.
        path: PathBuf,
        /// What is wrong, and what would be right.
        what: &'static str,
    },
    /// A path that has to exist does not.
    #[error("{at}: {} is not there: {source}; mark the grant `optional = true` if that is fine", .path.display())]
    Missing {
        /// File and line.
        at: Place,
        /// The path, variables expanded.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A grant that no policy may hold.
    #[error("{at}: {} is not granted: {why}", .path.display())]
    Refused {
        /// File and line.
        at: Place,
        /// The path.
        path: PathBuf,
        /// Why, and the way out.
        why: String,
    },
    /// The workspace cannot be one.
    #[error("{} cannot be the workspace: {why}", .path.display())]
    Workspace {
        /// As asked for.
        path: PathBuf,
        /// Why, and the way out.
        why: String,
    },
    /// The profile speaks of a workspace and none was given.
    #[error("the profile {profile} works in a workspace; give one with --workspace DIR")]
    WorkspaceNeeded {
        /// Its name.
        profile: String,
    },
    /// No toolchain has this name.
    #[error(
        "no toolchain is called {name:?}; there are: {known}, or \"auto\" for those on your PATH"
    )]
    Toolchain {
        /// As asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The private home could not be made ready.
    #[error("cannot prepare {} in the private home: {source}", .path.display())]
    PrivateHome {
        /// The path on the host.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ProfileError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ProfileError::NotFound { .. } => "profile_not_found",
            ProfileError::Name { .. } => "profile_name_invalid",
            ProfileError::Read { .. } => "profile_unreadable",
            ProfileError::Syntax { .. } => "profile_syntax",
            ProfileError::Cycle { .. } => "profile_cycle",
            ProfileError::Variable { .. } => "profile_variable_unknown",
            ProfileError::Path { .. } => "profile_path_invalid",
            ProfileError::Missing { .. } => "profile_path_missing",
            ProfileError::Refused { .. } => "profile_grant_refused",
            ProfileError::Workspace { .. } => "workspace_refused",
            ProfileError::WorkspaceNeeded { .. } => "workspace_needed",
            ProfileError::Toolchain { .. } => "toolchain_unknown",
            ProfileError::PrivateHome { .. } => "private_home_failed",
        }
    }
}
