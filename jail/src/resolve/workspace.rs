//! Which folder may be a workspace.

use std::path::{Path, PathBuf};

use super::Request;
use super::canonical::{Found, walk};
use super::credentials::Credentials;
use crate::policy::Kind;
use crate::profile::{Profile, ProfileError};

/// Folders of the system that nobody works in.
const NO_WORKSPACE: &[&str] = &["/boot", "/dev", "/etc", "/proc", "/run/secrets", "/sys"];

/// Folders that can hold a workspace and cannot be one.
const NOT_ITSELF: &[&str] = &[
    "/bin",
    "/home",
    "/lib",
    "/lib64",
    "/mnt",
    "/media",
    "/opt",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/tmp",
];

/// Follows the workspace and refuses what would give away the host.
pub(crate) fn find(
    profile: &Profile,
    request: &Request,
    homes: &[PathBuf],
    credentials: &Credentials,
) -> Result<Found, ProfileError> {
    let path = request
        .workspace
        .as_ref()
        .ok_or_else(|| ProfileError::WorkspaceNeeded {
            profile: profile.name.clone(),
        })?;
    let refuse = |why: &str| ProfileError::Workspace {
        path: path.clone(),
        why: why.to_owned(),
    };
    if !path.is_absolute() {
        return Err(refuse("it is not absolute"));
    }
    let found = walk(path).map_err(|error| refuse(&format!("it cannot be followed: {error}")))?;
    if found.kind != Kind::Dir {
        return Err(refuse("it is no folder"));
    }
    if found.path.parent().is_none() {
        return Err(refuse(
            "it is the whole file system; choose the project's folder",
        ));
    }
    if homes.iter().any(|home| home == &found.path) {
        return Err(refuse("it is the home directory; choose a folder in it"));
    }
    if homes.iter().any(|home| home.starts_with(&found.path)) {
        return Err(refuse(
            "it holds the home directory; choose the project's folder",
        ));
    }
    if let Some(secret) = credentials.holder(&found.path) {
        return Err(refuse(&format!("{} holds secrets", secret.display())));
    }
    if NO_WORKSPACE.iter().any(|dir| found.path.starts_with(dir))
        || NOT_ITSELF.iter().any(|dir| found.path == Path::new(dir))
    {
        return Err(refuse(
            "it belongs to the system; choose the project's folder",
        ));
    }
    Ok(found)
}
