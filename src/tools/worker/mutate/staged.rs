//! New bytes on their way into place.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use super::Present;
use crate::journal::crash_point;

/// Where a file without a name can be linked from.
const OWN_DESCRIPTORS: &str = "/proc/self/fd";

/// New bytes, written, not yet in place.
#[derive(Debug)]
pub(super) struct Staged {
    folder: OwnedFd,
    file: File,
    /// The name that the journal knows of.
    temp: String,
    /// Whether the bytes have that name already.
    named: bool,
    mode: Mode,
    own_descriptors: &'static str,
}

impl Staged {
    /// Writes `new` in `folder`, with owner, mode and attributes of
    /// the file that it is to replace.
    pub(super) fn new(
        folder: OwnedFd,
        temp: &str,
        present: Option<&Present>,
        new: &[u8],
    ) -> io::Result<Staged> {
        let mode = mode_for(present);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&folder, ".", flags, mode) {
            Ok(fd) => Self::filled(folder, File::from(fd), (temp, false), present, new),
            // Not every file system knows files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                Self::named(folder, temp, present, new)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same, under the temporary name from the start.
    fn named(
        folder: OwnedFd,
        temp: &str,
        present: Option<&Present>,
        new: &[u8],
    ) -> io::Result<Staged> {
        let file = create(folder.as_fd(), temp, mode_for(present))?;
        Self::filled(folder, file, (temp, true), present, new)
    }

    fn filled(
        folder: OwnedFd,
        file: File,
        (temp, named): (&str, bool),
        present: Option<&Present>,
        new: &[u8],
    ) -> io::Result<Staged> {
        // Whole before it is filled: a failure drops it, and with it its name.
        let mut staged = Staged {
            folder,
            file,
            temp: temp.to_owned(),
            named,
            mode: mode_for(present),
            own_descriptors: OWN_DESCRIPTORS,
        };
        fill(&mut staged.file, present, new)?;
        Ok(staged)
    }

    /// Puts the bytes on the disk; before that they must not be put in place.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Puts the bytes in place under `name`. `new` are the bytes once more, for
    /// file systems on which a file without a name cannot be given one.
    pub(super) fn publish(&self, name: &OsStr, replace: bool, new: &[u8]) -> io::Result<()> {
        let folder = self.folder.as_fd();
        let temp = OsStr::new(&self.temp);
        if !self.named {
            let target = if replace { temp } else { name };
            match self.link(target) {
                Ok(()) if !replace => return Ok(()),
                Ok(()) => {}
                Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                // No /proc to link from: write them again, under the name.
                Err(_) => {
                    let mut file = create(folder, &self.temp, self.mode)?;
                    copy_facts(&self.file, &file)?;
                    file.write_all(new)?;
                    file.sync_all()?;
                }
            }
        }
        crash_point("named");
        let done = if replace {
            rustix::fs::renameat(folder, temp, folder, name)
        } else {
            rename_new(folder, temp, name)
        };
        if done.is_err() {
            let _ = rustix::fs::unlinkat(folder, temp, AtFlags::empty());
        }
        Ok(done?)
    }

    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        let own = format!("{}/{}", self.own_descriptors, self.file.as_raw_fd());
        rustix::fs::linkat(
            rustix::fs::CWD,
            own,
            &self.folder,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )
    }

    pub(super) fn flush_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.folder)?)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a publication the name is gone already, or another file's
        // under a name of 80 random bits: neither can be hit by this.
        if self.named {
            let _ = rustix::fs::unlinkat(&self.folder, self.temp.as_str(), AtFlags::empty());
        }
    }
}

/// Renames unless the name is taken, also where the kernel cannot do that in
/// one step.
fn rename_new(folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            rustix::fs::unlinkat(folder, from, AtFlags::empty())
        }
        done => done,
    }
}

/// A new file gets what the umask leaves; a changed one is private until it has
/// the mode of the old one.
fn mode_for(present: Option<&Present>) -> Mode {
    Mode::from_raw_mode(if present.is_some() { 0o600 } else { 0o666 })
}

fn create(folder: BorrowedFd<'_>, name: &str, mode: Mode) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, mode)?))
}

/// Writes the bytes and gives the file owner, mode and attributes of the one
/// that it replaces.
fn fill(file: &mut File, present: Option<&Present>, new: &[u8]) -> io::Result<()> {
    file.write_all(new)?;
    if let Some(present) = present {
        copy_facts_of(&present.stat, &present.file, file)?;
    }
    Ok(())
}

fn copy_facts(from: &File, to: &File) -> io::Result<()> {
    copy_facts_of(&rustix::fs::fstat(from)?, from, to)
}

fn copy_facts_of(stat: &Stat, from: &File, to: &File) -> io::Result<()> {
    let made = rustix::fs::fstat(to)?;
    if (made.st_uid, made.st_gid) != (stat.st_uid, stat.st_gid) {
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        rustix::fs::fchown(to, Some(uid), Some(gid)).map_err(|error| {
            io::Error::new(
                io::Error::from(error).kind(),
                format!("its owner or group cannot be kept ({error})"),
            )
        })?;
    }
    copy_attributes(from, to)?;
    // Without set-user-ID and set-group-ID, as the kernel does on a write; and
    // last, because a change of owner clears bits as well.
    rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o1777))?;
    Ok(())
}

/// Attributes that are the user's own, and access lists.
fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let mut names = vec![0; 4096];
    let length = match rustix::fs::flistxattr(from, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for name in names[..length].split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") && name != b"system.posix_acl_access" {
            continue;
        }
        let mut value = vec![0; 64 << 10];
        let length = rustix::fs::fgetxattr(from, name, &mut value[..])?;
        rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Every way of getting bytes into place: without a name, under a name, and
    /// without a name where it cannot be linked.
    fn each_way(dir: &Path, new: &[u8]) -> [Staged; 3] {
        let folder = || OwnedFd::from(File::open(dir).expect("folder"));
        let mut linkless = Staged::new(folder(), ".t3", None, new).expect("staged");
        linkless.own_descriptors = "/nonexistent";
        [
            Staged::new(folder(), ".t1", None, new).expect("staged"),
            Staged::named(folder(), ".t2", None, new).expect("staged"),
            linkless,
        ]
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("list").flatten();
        entries
            .map(|entry| entry.file_name().into_string().expect("name"))
            .collect()
    }

    #[test]
    fn every_way_makes_a_new_file_and_replaces_an_old_one() {
        for way in 0..3 {
            let dir = tempfile::tempdir().expect("tempdir");
            let [a, b, c] = each_way(dir.path(), b"new");
            let staged = [&a, &b, &c][way];
            staged
                .publish(OsStr::new("f"), false, b"new")
                .expect("publish");
            drop([a, b, c]);
            assert_eq!(names(dir.path()), ["f"], "way {way}");
            assert_eq!(fs::read(dir.path().join("f")).expect("read"), b"new");

            let [a, b, c] = each_way(dir.path(), b"newer");
            let staged = [&a, &b, &c][way];
            staged
                .publish(OsStr::new("f"), true, b"newer")
                .expect("publish");
            drop([a, b, c]);
            assert_eq!(names(dir.path()), ["f"], "way {way}");
            assert_eq!(fs::read(dir.path().join("f")).expect("read"), b"newer");
        }
    }

    #[test]
    fn no_way_replaces_a_file_that_appeared_and_none_leaves_anything() {
        for way in 0..3 {
            let dir = tempfile::tempdir().expect("tempdir");
            let [a, b, c] = each_way(dir.path(), b"new");
            fs::write(dir.path().join("f"), "foreign").expect("write");
            let staged = [&a, &b, &c][way];
            let error = staged
                .publish(OsStr::new("f"), false, b"new")
                .expect_err("taken");
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "way {way}");
            drop([a, b, c]);
            assert_eq!(names(dir.path()), ["f"], "way {way}");
            assert_eq!(fs::read(dir.path().join("f")).expect("read"), b"foreign");
        }
    }
}
