//! Folders of the private home on the host, and the places in it onto which
//! real paths are mounted.
//!
//! What is in a private home was written by jailed processes. Nothing here
//! follows a symbolic link in it: a link planted there must not make us create
//! something elsewhere on the host.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::policy::Kind;
use crate::profile::ProfileError;

/// A folder that exists now: its canonical path and identity.
pub(crate) struct Made {
    pub path: PathBuf,
    pub dev: u64,
    pub ino: u64,
}

/// A private home on the host, open.
pub(crate) struct PrivateHome {
    path: PathBuf,
    dir: OwnedFd,
}

impl PrivateHome {
    /// Opens the folder, making it (mode 0700) when it is missing.
    pub(crate) fn open(path: &Path) -> Result<PrivateHome, ProfileError> {
        let fail = |source| ProfileError::PrivateHome {
            path: path.to_path_buf(),
            source,
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(fail)?;
        let path = path.canonicalize().map_err(fail)?;
        let dir = rustix::fs::openat(CWD, &path, DIR, Mode::empty()).map_err(|e| fail(e.into()))?;
        Ok(PrivateHome { path, dir })
    }

    /// Makes the folder `relative` in it.
    pub(crate) fn folder(&self, relative: &Path) -> Result<Made, ProfileError> {
        let path = self.path.join(relative);
        let made = self
            .descend(relative)
            .and_then(|dir| rustix::fs::fstat(&dir).map_err(io::Error::from));
        match made {
            Ok(stat) => Ok(Made {
                path,
                dev: stat.st_dev,
                ino: stat.st_ino,
            }),
            Err(source) => Err(ProfileError::PrivateHome { path, source }),
        }
    }

    /// Makes `relative` something that an object of this kind can be mounted
    /// on.
    pub(crate) fn mount_point(&self, relative: &Path, kind: Kind) -> Result<(), ProfileError> {
        let made = match (kind, relative.parent(), relative.file_name()) {
            (Kind::File, Some(parent), Some(name)) => self
                .descend(parent)
                .and_then(|dir| file(&dir, Path::new(name))),
            _ => self.descend(relative).map(drop),
        };
        made.map_err(|source| ProfileError::PrivateHome {
            path: self.path.join(relative),
            source,
        })
    }

    /// Opens `relative` one component at a time. What is no folder is removed
    /// and made one.
    fn descend(&self, relative: &Path) -> io::Result<OwnedFd> {
        let mut dir = self.dir.try_clone()?;
        for part in relative.components() {
            let Component::Normal(name) = part else {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            };
            dir = child(&dir, Path::new(name))?;
        }
        Ok(dir)
    }
}

const DIR: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

fn child(dir: &OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    // Twice is enough: nobody else changes a private home while no jail has it
    // open, and one that is open keeps its mount points busy.
    for _ in 0..2 {
        match rustix::fs::openat(dir, name, DIR, Mode::empty()) {
            Ok(fd) => return Ok(fd),
            Err(rustix::io::Errno::NOENT) => {}
            Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
                rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
            }
            Err(error) => return Err(error.into()),
        }
        match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rustix::fs::openat(dir, name, DIR, Mode::empty())?)
}

fn file(dir: &OwnedFd, name: &Path) -> io::Result<()> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => return Ok(()),
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => {
            // Only an empty folder can be replaced without losing something.
            rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?;
        }
        Ok(_) => rustix::fs::unlinkat(dir, name, AtFlags::empty())?,
        Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(dir.as_fd(), name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_planted_link_is_replaced_and_its_target_left_alone() {
        let dir = tempfile::tempdir().expect("tempdir");
        let victim = dir.path().join("victim");
        let home = dir.path().join("home");
        fs::create_dir_all(&victim).expect("mkdir");
        fs::create_dir_all(&home).expect("mkdir");
        symlink(&victim, home.join(".local")).expect("link");
        symlink(victim.join("new"), home.join("rc")).expect("link");

        let private = PrivateHome::open(&home).expect("open");
        private
            .mount_point(Path::new(".local/share/x"), Kind::Dir)
            .expect("folder");
        private
            .mount_point(Path::new("rc"), Kind::File)
            .expect("file");

        assert!(home.join(".local/share/x").is_dir());
        assert!(home.join("rc").symlink_metadata().expect("stat").is_file());
        assert_eq!(fs::read_dir(&victim).expect("list").count(), 0);
    }

    #[test]
    fn folders_are_for_the_user_alone_and_the_way_up_is_refused() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().expect("tempdir");
        let private = PrivateHome::open(&dir.path().join("a/b")).expect("open");
        let made = private.folder(Path::new(".cache")).expect("folder");
        let meta = fs::metadata(&made.path).expect("stat");
        assert_eq!(meta.permissions().mode() & 0o777, 0o700);
        assert_eq!((made.dev, made.ino), (meta.dev(), meta.ino()));
        assert!(private.folder(Path::new("../x")).is_err());
    }
}
