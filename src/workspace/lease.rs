//! Who may work in a workspace now.
//!
//! A kernel `flock` on `<locks>/<sha256 of the identity>.lock`: it dies with
//! its holder, so a crash leaves nothing to clean up. A coding run holds it
//! alone, read-only runs share it.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::{Workspace, WorkspaceError};
use crate::store::{StoreError, make_folder, open_file};

/// Holds the workspace until it is dropped.
#[derive(Debug)]
pub struct Lease {
    // Only its lock matters. The descriptor is close-on-exec: a child that
    // inherited it would keep the workspace busy after us.
    _file: File,
}

impl Lease {
    /// Takes the lease of `workspace` at once or fails; never waits. `locks` is
    /// the folder of lock files, `~/.deepseek-mcp/locks` for a real user.
    pub fn acquire(locks: &Path, workspace: &Workspace, shared: bool) -> Result<Lease, Busy> {
        make_folder(locks)?;
        let path = locks.join(format!("{}.lock", workspace.id().digest()));
        let file = open_file(&path)?;
        let taken = if shared {
            file.try_lock_shared()
        } else {
            file.try_lock()
        };
        match taken {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Busy::Taken {
                    workspace: workspace.root().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Busy::Store(StoreError::Io {
                    act: "lock",
                    path,
                    source,
                }));
            }
        }
        // Under the lock: what is locked is what was asked for.
        workspace.recheck()?;
        Ok(Lease { _file: file })
    }
}

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Busy {
    /// Another run holds it.
    #[error("another run is working in {}; wait for it or cancel it", .workspace.display())]
    Taken {
        /// The workspace.
        workspace: std::path::PathBuf,
    },
    /// The lock file cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workspace is no longer what it was.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

impl Busy {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Busy::Taken { .. } => "workspace_busy",
            Busy::Store(error) => error.code(),
            Busy::Workspace(error) => error.code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn set_up() -> (tempfile::TempDir, Workspace) {
        let dir = tempfile::tempdir().expect("tempdir");
        fs::create_dir(dir.path().join("w")).expect("mkdir");
        let home = dir.path().join("home");
        let workspace = Workspace::open_for(&dir.path().join("w"), Some(&home)).expect("open");
        (dir, workspace)
    }

    fn code(result: Result<Lease, Busy>) -> &'static str {
        match result {
            Ok(_) => "ok",
            Err(busy) => busy.code(),
        }
    }

    #[test]
    fn coding_excludes_all_and_readers_share() {
        let (dir, workspace) = set_up();
        let locks = dir.path().join("locks");
        let reader = Lease::acquire(&locks, &workspace, true).expect("reader");
        assert_eq!(code(Lease::acquire(&locks, &workspace, true)), "ok");
        assert_eq!(
            code(Lease::acquire(&locks, &workspace, false)),
            "workspace_busy"
        );
        drop(reader);
        let coder = Lease::acquire(&locks, &workspace, false).expect("coder");
        assert_eq!(
            code(Lease::acquire(&locks, &workspace, true)),
            "workspace_busy"
        );
        assert_eq!(
            code(Lease::acquire(&locks, &workspace, false)),
            "workspace_busy"
        );
        drop(coder);
        assert_eq!(code(Lease::acquire(&locks, &workspace, false)), "ok");
    }

    #[test]
    fn an_alias_meets_the_same_lock_and_another_folder_does_not() {
        let (dir, workspace) = set_up();
        let locks = dir.path().join("locks");
        let home = dir.path().join("home");
        symlink(dir.path().join("w"), dir.path().join("alias")).expect("link");
        fs::create_dir(dir.path().join("v")).expect("mkdir");
        let alias = Workspace::open_for(&dir.path().join("alias"), Some(&home)).expect("alias");
        let other = Workspace::open_for(&dir.path().join("v"), Some(&home)).expect("other");
        let _held = Lease::acquire(&locks, &workspace, false).expect("lease");
        assert_eq!(
            code(Lease::acquire(&locks, &alias, false)),
            "workspace_busy"
        );
        assert_eq!(code(Lease::acquire(&locks, &other, false)), "ok");
    }

    #[test]
    fn the_file_name_is_that_of_the_old_server() {
        // sha256("filesystem:1:2") computed with coreutils.
        let id = super::super::WorkspaceId {
            dev: 1,
            ino: 2,
            born: Some("3.000000004".to_owned()),
        };
        assert_eq!(id.identity(), "filesystem:1:2");
        assert_eq!(
            id.digest(),
            "04be446a2ae947c438b3b06f6d6b30ed0b150e023b2b94a13669236f3db94e70"
        );
    }

    #[test]
    fn a_replaced_workspace_and_an_unsafe_lock_file_give_no_lease() {
        let (dir, workspace) = set_up();
        let locks = dir.path().join("locks");
        fs::rename(dir.path().join("w"), dir.path().join("old")).expect("rename");
        fs::create_dir(dir.path().join("w")).expect("mkdir");
        assert_eq!(
            code(Lease::acquire(&locks, &workspace, false)),
            "workspace_replaced"
        );
        fs::remove_dir(dir.path().join("w")).expect("rmdir");
        fs::rename(dir.path().join("old"), dir.path().join("w")).expect("rename");
        let file = locks.join(format!("{}.lock", workspace.id().digest()));
        fs::remove_file(&file).expect("remove");
        symlink("/dev/null", &file).expect("link");
        assert_eq!(
            code(Lease::acquire(&locks, &workspace, false)),
            "state_unsafe"
        );
        fs::remove_file(&file).expect("remove");
        assert_eq!(code(Lease::acquire(&locks, &workspace, false)), "ok");
    }
}
