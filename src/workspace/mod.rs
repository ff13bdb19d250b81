//! The workspace: its root, its identity, who may work in it, and its edge.
//!
//! [`Workspace`] is a folder that was looked at once and is compared with
//! itself from then on; [`Lease`] is the kernel lock that keeps two coding runs
//! apart; [`Root`] walks to paths without ever leaving the folder. The file
//! tools use [`Root`] inside the jail, the journal outside it.

mod beneath;
mod lease;
mod roots;

pub use beneath::{PathError, Place, Root, What, relative};
pub use lease::{Busy, Lease};
pub use roots::Refused;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Which folder it is, whatever its name: survives renames and path aliases.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkspaceId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Birth time where the file system keeps one, as `seconds.nanoseconds`:
    /// tells a folder from a later one with the same inode number.
    pub born: Option<String>,
}

impl WorkspaceId {
    /// The identity of a folder.
    pub fn of(path: &Path) -> io::Result<Self> {
        use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Ok(WorkspaceId {
            dev: makedev(found.stx_dev_major, found.stx_dev_minor),
            ino: found.stx_ino,
            born: has_birth
                .then(|| format!("{}.{:09}", found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
        })
    }

    /// `filesystem:<dev>:<ino>`, the bytes that name the lock: those of
    /// deepseek-as-subagent, so that it and delegate exclude each other.
    pub fn identity(&self) -> String {
        format!("filesystem:{}:{}", self.dev, self.ino)
    }

    /// The SHA-256 of [`WorkspaceId::identity`] in hex.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.identity().as_bytes()))
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.identity())
    }
}

/// A folder in which a run may work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
    id: WorkspaceId,
}

impl Workspace {
    /// Opens `path` for the user whose home `HOME` or the user database names.
    pub fn open(path: &Path) -> Result<Workspace, WorkspaceError> {
        Self::open_for(path, std::env::home_dir().as_deref())
    }

    /// Opens `path` for a user with this home.
    pub fn open_for(path: &Path, home: Option<&Path>) -> Result<Workspace, WorkspaceError> {
        let fail = |source| WorkspaceError::Unusable {
            path: path.to_owned(),
            source,
        };
        let root = fs::canonicalize(path).map_err(fail)?;
        if !fs::metadata(&root).map_err(fail)?.is_dir() {
            return Err(WorkspaceError::NotAFolder { path: root });
        }
        let canonical_home = home.map(|home| fs::canonicalize(home).unwrap_or(home.to_owned()));
        for home in [home, canonical_home.as_deref()] {
            if let Some(why) = roots::refusal(&root, home) {
                return Err(WorkspaceError::Refused { path: root, why });
            }
        }
        let id = WorkspaceId::of(&root).map_err(fail)?;
        Ok(Workspace { root, id })
    }

    /// The canonical path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Which folder it is.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    /// Fails when the path leads to another folder than it did at first.
    pub fn recheck(&self) -> Result<(), WorkspaceError> {
        match WorkspaceId::of(&self.root) {
            Ok(now) if now == self.id => Ok(()),
            _ => Err(WorkspaceError::Replaced {
                path: self.root.clone(),
            }),
        }
    }
}

/// Why a folder cannot be a workspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// Missing or unreadable.
    #[error("the workspace {} cannot be used: {source}; name an existing folder", .path.display())]
    Unusable {
        /// As given.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Not a folder.
    #[error("the workspace {} is not a folder; name the folder that holds the project", .path.display())]
    NotAFolder {
        /// Canonical.
        path: PathBuf,
    },
    /// A place in which no agent may work.
    #[error("the workspace {} is refused: {why}; name a project folder", .path.display())]
    Refused {
        /// Canonical.
        path: PathBuf,
        /// Why.
        why: Refused,
    },
    /// The path leads to another folder than before.
    #[error("the workspace {} is no longer the folder that it was; start again", .path.display())]
    Replaced {
        /// Canonical.
        path: PathBuf,
    },
}

impl WorkspaceError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            WorkspaceError::Unusable { .. } => "workspace_unusable",
            WorkspaceError::NotAFolder { .. } => "workspace_not_a_folder",
            WorkspaceError::Refused { .. } => "workspace_refused",
            WorkspaceError::Replaced { .. } => "workspace_replaced",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn an_alias_gives_the_same_root_and_identity() {
        let dir = tempfile::tempdir().expect("tempdir");
        let real = dir.path().join("project");
        fs::create_dir(&real).expect("mkdir");
        symlink(&real, dir.path().join("alias")).expect("link");
        let home = dir.path().join("home");
        let one = Workspace::open_for(&real, Some(&home)).expect("real");
        let two = Workspace::open_for(&dir.path().join("alias"), Some(&home)).expect("alias");
        assert_eq!(one, two);
        let found = fs::metadata(&real).expect("stat");
        assert_eq!(
            one.id().identity(),
            format!("filesystem:{}:{}", found.dev(), found.ino())
        );
    }

    #[test]
    fn home_its_ancestors_credentials_files_and_nothing_are_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = fs::canonicalize(dir.path()).expect("canonical");
        let home = base.join("u/home");
        for made in ["u/home/.ssh/x", "u/home/p/.git/hooks", "u/home/p/src"] {
            fs::create_dir_all(base.join(made)).expect("mkdir");
        }
        fs::write(home.join("file"), "").expect("write");
        symlink(&home, base.join("sneaky")).expect("link");
        let code = |path: PathBuf| match Workspace::open_for(&path, Some(&home)) {
            Ok(_) => "ok",
            Err(error) => error.code(),
        };
        assert_eq!(code(home.clone()), "workspace_refused");
        assert_eq!(code(base.join("u")), "workspace_refused");
        assert_eq!(code(base.join("sneaky")), "workspace_refused");
        assert_eq!(code(PathBuf::from("/")), "workspace_refused");
        assert_eq!(code(home.join(".ssh")), "workspace_refused");
        assert_eq!(code(home.join(".ssh/x")), "workspace_refused");
        assert_eq!(code(home.join("p/.git/hooks")), "workspace_refused");
        assert_eq!(code(home.join("gone")), "workspace_unusable");
        assert_eq!(code(home.join("file")), "workspace_not_a_folder");
        assert_eq!(code(home.join("p")), "ok");
        assert_eq!(code(home.join("p/src")), "ok");
    }

    #[test]
    fn a_folder_put_in_its_place_is_noticed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("w");
        fs::create_dir(&path).expect("mkdir");
        let home = dir.path().join("home");
        let workspace = Workspace::open_for(&path, Some(&home)).expect("open");
        workspace.recheck().expect("unchanged");
        fs::rename(&path, dir.path().join("old")).expect("rename");
        assert_eq!(
            workspace.recheck().expect_err("gone").code(),
            "workspace_replaced"
        );
        fs::create_dir(&path).expect("mkdir");
        assert_eq!(
            workspace.recheck().expect_err("another").code(),
            "workspace_replaced"
        );
        fs::remove_dir(&path).expect("rmdir");
        fs::rename(dir.path().join("old"), &path).expect("rename back");
        workspace
            .recheck()
            .expect("the twin: back again, it passes");
    }
}
