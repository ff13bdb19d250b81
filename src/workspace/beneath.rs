//! Walking to a path without ever leaving a folder.
//!
//! Each component is opened by descriptor from the one before it (`openat2`,
//! `RESOLVE_BENEATH`, never following), links are read and walked in turn, and
//! `..` goes back along the descriptors that were opened. So a folder that is
//! swapped for a link while we walk leads nowhere, and the canonical relative
//! path comes out of the walk itself rather than from a second look.

mod open;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use open::{look, names_in, open_below, open_one};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// As many links as the kernel itself would follow.
const MAX_LINKS: usize = 40;

/// A folder, held by descriptor, below which paths are resolved.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
    dev: u64,
    ino: u64,
}

/// Where a path leads.
#[derive(Debug)]
pub struct Place {
    /// The folder that holds it; `None` for the root itself.
    parent: Option<Rc<OwnedFd>>,
    /// Its name in that folder; empty for the root itself.
    name: OsString,
    /// The canonical path relative to the root; empty for the root itself.
    pub rel: PathBuf,
    /// What is there.
    pub what: What,
}

/// What is at a [`Place`].
#[derive(Debug)]
pub enum What {
    /// A regular file.
    File(Stat),
    /// A folder.
    Dir(Stat),
    /// A device, FIFO, socket, or a link where links are not followed.
    Special(Stat),
    /// Nothing; these folders above it, outermost first, are missing as well.
    Missing(Vec<OsString>),
}

/// Why a path leads nowhere. The texts are for models as much as for people.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The empty string.
    #[error("the path is empty")]
    Empty,
    /// A NUL character.
    #[error("the path holds a NUL character")]
    Nul,
    /// It leads out, by itself or through a link.
    #[error("{asked} is outside the workspace")]
    Outside {
        /// As asked for.
        asked: String,
    },
    /// Something before the end is no folder.
    #[error("{} is not a folder", .at.display())]
    NotAFolder {
        /// Relative to the root.
        at: PathBuf,
    },
    /// Links lead round and round.
    #[error("too many symbolic links at {}", .at.display())]
    Loop {
        /// Relative to the root.
        at: PathBuf,
    },
    /// The file system refused.
    #[error("{}: {source}", .at.display())]
    Io {
        /// Relative to the root.
        at: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Makes `asked` relative to `root` where it is an absolute path inside it.
/// Looks at text only. `~` means nothing here: it is a name like any other.
pub fn relative<'a>(root: &Path, asked: &'a str) -> Result<&'a Path, PathError> {
    if asked.is_empty() {
        return Err(PathError::Empty);
    }
    if asked.contains('\0') {
        return Err(PathError::Nul);
    }
    let path = Path::new(asked);
    if path.is_relative() {
        return Ok(path);
    }
    path.strip_prefix(root).map_err(|_| PathError::Outside {
        asked: asked.to_owned(),
    })
}

impl Root {
    /// Opens a folder; `path` is taken as canonical.
    pub fn open(path: &Path) -> io::Result<Root> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Root {
            fd,
            path: path.to_owned(),
            dev: stat.st_dev,
            ino: stat.st_ino,
        })
    }

    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode number.
    pub fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    /// Where `asked` leads, links followed.
    pub fn find(&self, asked: &str) -> Result<Place, PathError> {
        let rel = relative(&self.path, asked)?;
        self.walk(rel, asked, true)
    }

    /// Where `rel` leads; a link anywhere on the way is [`What::Special`] or
    /// [`PathError::NotAFolder`].
    pub fn find_exact(&self, rel: &Path) -> Result<Place, PathError> {
        self.walk(rel, &rel.to_string_lossy(), false)
    }

    fn walk(&self, rel: &Path, asked: &str, follow: bool) -> Result<Place, PathError> {
        let outside = || PathError::Outside {
            asked: asked.to_owned(),
        };
        let mut ahead: VecDeque<OsString> = VecDeque::new();
        push_front(&mut ahead, rel).ok_or_else(outside)?;
        // Folders entered so far: the way back for `..`, and the parent at the end.
        let mut entered: Vec<(OsString, Rc<OwnedFd>)> = Vec::new();
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                entered.pop().ok_or_else(outside)?;
                continue;
            }
            let at = || joined(&entered, &name);
            let parent = entered.last().map(|(_, fd)| fd.clone());
            let from = parent.as_ref().map_or(self.fd.as_fd(), |fd| fd.as_fd());
            let fd = match look(from, &name) {
                Ok(fd) => fd,
                Err(Errno::NOENT) => return missing(parent, entered, name, ahead, outside),
                Err(error) => {
                    return Err(PathError::Io {
                        at: at(),
                        source: error.into(),
                    });
                }
            };
            let stat = rustix::fs::fstat(&fd).map_err(|error| PathError::Io {
                at: at(),
                source: error.into(),
            })?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => entered.push((name, Rc::new(fd))),
                FileType::Symlink if follow => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(PathError::Loop { at: at() });
                    }
                    let target = rustix::fs::readlinkat(&fd, "", Vec::new()).map_err(|error| {
                        PathError::Io {
                            at: at(),
                            source: error.into(),
                        }
                    })?;
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    let target = if target.is_absolute() {
                        // An absolute link into the root stays inside it.
                        entered.clear();
                        target
                            .strip_prefix(&self.path)
                            .map_err(|_| outside())?
                            .to_owned()
                    } else {
                        target
                    };
                    push_front(&mut ahead, &target).ok_or_else(outside)?;
                }
                kind => {
                    let rel = at();
                    if !ahead.is_empty() {
                        return Err(PathError::NotAFolder { at: rel });
                    }
                    let what = match kind {
                        FileType::RegularFile => What::File(stat),
                        _ => What::Special(stat),
                    };
                    return Ok(Place {
                        parent,
                        name,
                        rel,
                        what,
                    });
                }
            }
        }
        self.at_folder(entered)
    }

    /// The walk ended in a folder: the last one entered, or the root.
    fn at_folder(&self, mut entered: Vec<(OsString, Rc<OwnedFd>)>) -> Result<Place, PathError> {
        let rel: PathBuf = entered.iter().map(|(name, _)| name).collect();
        let (name, fd) = match entered.pop() {
            Some((name, fd)) => (name, Some(fd)),
            None => (OsString::new(), None),
        };
        let stat = match &fd {
            Some(fd) => rustix::fs::fstat(fd),
            None => rustix::fs::fstat(&self.fd),
        };
        let stat = stat.map_err(|error| PathError::Io {
            at: rel.clone(),
            source: error.into(),
        })?;
        // The root has no parent; for a folder below it the parent is the one
        // entered before, or the root again.
        let parent = match (fd, entered.pop()) {
            (None, _) => None,
            (Some(_), Some((_, parent))) => Some(parent),
            (Some(_), None) => Some(Rc::new(self.duplicate()?)),
        };
        Ok(Place {
            parent,
            name,
            rel,
            what: What::Dir(stat),
        })
    }

    fn duplicate(&self) -> Result<OwnedFd, PathError> {
        self.fd.try_clone().map_err(|source| PathError::Io {
            at: PathBuf::new(),
            source,
        })
    }

    fn parent_of<'a>(&'a self, place: &'a Place) -> BorrowedFd<'a> {
        place
            .parent
            .as_ref()
            .map_or(self.fd.as_fd(), |fd| fd.as_fd())
    }

    /// The folder that holds `place`, and its name there.
    pub fn slot<'a>(&'a self, place: &'a Place) -> (BorrowedFd<'a>, &'a OsStr) {
        (self.parent_of(place), &place.name)
    }

    /// Opens the regular file at `place` for reading; fails when it is no
    /// longer the file that the walk found.
    pub fn read(&self, place: &Place) -> io::Result<File> {
        let What::File(seen) = &place.what else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // NONBLOCK: should the file have become a FIFO meanwhile.
        let flags =
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = open_one(self.parent_of(place), &place.name, flags)?;
        let now = rustix::fs::fstat(&fd)?;
        if (now.st_dev, now.st_ino) != (seen.st_dev, seen.st_ino) {
            return Err(io::Error::other(
                "the file was replaced while it was opened",
            ));
        }
        Ok(File::from(fd))
    }

    /// Opens the regular file at `rel` for reading, through no link, in one step.
    pub fn read_exact(&self, rel: &Path) -> io::Result<File> {
        let flags =
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = open_below(self.fd.as_fd(), rel.as_os_str(), flags)?;
        let found = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(File::from(fd))
    }

    /// The names in the folder at `place`, folders with a slash at the end, in order.
    pub fn list(&self, place: &Place) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name: &OsStr = if place.name.is_empty() {
            OsStr::new(".")
        } else {
            &place.name
        };
        names_in(open_one(self.parent_of(place), name, flags)?)
    }

    /// The names in the innermost folder that exists above a missing place, and
    /// that folder's relative path.
    pub fn list_above(&self, place: &Place) -> io::Result<(PathBuf, Vec<String>)> {
        let missing = match &place.what {
            What::Missing(folders) => folders.len() + 1,
            _ => 1,
        };
        let above = place.rel.ancestors().nth(missing).unwrap_or(Path::new(""));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open_one(self.parent_of(place), OsStr::new("."), flags)?;
        Ok((above.to_owned(), names_in(fd)?))
    }

    /// Creates the missing folders above `place` and gives the innermost one.
    pub fn make_parents(&self, place: &Place) -> io::Result<OwnedFd> {
        let mut folder = self.parent_of(place).try_clone_to_owned()?;
        if let What::Missing(names) = &place.what {
            for name in names {
                match rustix::fs::mkdirat(&folder, name.as_os_str(), Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                folder = open_one(folder.as_fd(), name, flags)?;
            }
        }
        Ok(folder)
    }
}

fn missing(
    parent: Option<Rc<OwnedFd>>,
    entered: Vec<(OsString, Rc<OwnedFd>)>,
    first: OsString,
    rest: VecDeque<OsString>,
    outside: impl Fn() -> PathError,
) -> Result<Place, PathError> {
    let mut rel: PathBuf = entered.iter().map(|(name, _)| name).collect();
    let mut absent: Vec<OsString> = Vec::new();
    for name in std::iter::once(first).chain(rest) {
        // `missing/..` is an error for the kernel as well; what it would mean
        // once the folder exists is nobody's business.
        if name == ".." {
            absent.pop().ok_or_else(&outside)?;
            rel.pop();
            continue;
        }
        rel.push(&name);
        absent.push(name);
    }
    let name = absent.pop().ok_or_else(outside)?;
    Ok(Place {
        parent,
        name,
        rel,
        what: What::Missing(absent),
    })
}

fn joined(entered: &[(OsString, Rc<OwnedFd>)], name: &OsStr) -> PathBuf {
    let mut path: PathBuf = entered.iter().map(|(name, _)| name).collect();
    path.push(name);
    path
}

/// Puts the components of a relative path before what lies ahead.
fn push_front(ahead: &mut VecDeque<OsString>, path: &Path) -> Option<()> {
    for part in path.components().rev() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => ahead.push_front(OsString::from("..")),
            Component::Normal(name) => ahead.push_front(name.to_owned()),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests;
