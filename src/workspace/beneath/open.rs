//! The system calls of the walk.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A handle on one component, whatever it is, not followed and not opened.
pub(super) fn look(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat2(
        dir,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens one component, which a link may be only where `flags` say so.
pub(super) fn open_one(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(dir, name, flags, resolve)?)
}

/// Opens a relative path of several components, through no link at all.
pub(super) fn open_below(dir: BorrowedFd<'_>, path: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(dir, path, flags, resolve)?)
}

fn openat2(
    dir: BorrowedFd<'_>,
    path: &OsStr,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    // EAGAIN: a rename anywhere raced with the look-up; the kernel asks for
    // another try. Bounded, because a workspace can be renamed in for ever.
    for _ in 0..128 {
        match rustix::fs::openat2(dir, path.as_bytes(), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// The names in a folder, sorted, folders with a slash at the end.
pub(super) fn names_in(fd: OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let slash = if entry.file_type() == FileType::Directory {
            "/"
        } else {
            ""
        };
        names.push(format!("{}{slash}", String::from_utf8_lossy(name)));
    }
    names.sort_unstable();
    Ok(names)
}
