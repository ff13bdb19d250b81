//! Changing a file, in the order in which nothing can be lost.
//!
//! 1. The new bytes are written and flushed, under no name where the file
//!    system allows that, else under a temporary one.
//! 2. The intent goes out and comes back recorded.
//! 3. The target is looked at again: it must still be what was read.
//! 4. One rename (or link, for a new file) puts the bytes in place.
//! 5. The folder is flushed.
//!
//! A crash before 4 leaves the old file, after it the new one, and in either
//! case a record that tells which, as soon as 2 is past.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use super::super::proto::{Outcome, Plan};
use super::protected::protected;
use super::{Done, Fail, Gate, MAX_CHANGED, Worker, text};
use crate::journal::{Digest, crash_point};
use crate::workspace::{Place, Root, What};

/// A file as it was read before a change.
#[derive(Debug)]
pub(super) struct Present {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
    stat: Stat,
    file: File,
}

/// Whether `name` is one that we give to temporary files.
pub(super) fn is_temp_name(name: &OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(".delegate-")?.strip_suffix(".tmp"))
        .is_some_and(|middle| {
            middle.len() == 26 && middle.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
}

fn temp_name() -> String {
    format!(".delegate-{}.tmp", ulid::Ulid::generate())
}

/// Whether a tool may change what is at `place`.
pub(super) fn may_change(place: &Place) -> Result<(), Fail> {
    if let Some(name) = protected(&place.rel) {
        return Err(Fail::Refused(format!(
            "{} is protected ({name} steers other programs): it can be read, not changed",
            place.rel.display()
        )));
    }
    match &place.what {
        What::File(stat) if stat.st_nlink > 1 => Err(Fail::Refused(format!(
            "{} has {} names (hard links), and the others may be outside the workspace",
            place.rel.display(),
            stat.st_nlink
        ))),
        What::File(_) | What::Missing(_) => Ok(()),
        What::Dir(_) => Err(Fail::error(format!(
            "{} is a directory",
            place.rel.display()
        ))),
        What::Special(_) => Err(Fail::Refused(format!(
            "{} is no regular file",
            place.rel.display()
        ))),
    }
}

impl Worker {
    /// The file at `place`, whole; `None` when there is none.
    pub(super) fn present(&self, place: &Place) -> Result<Option<Present>, Fail> {
        let What::File(stat) = &place.what else {
            return Ok(None);
        };
        let path = place.rel.display();
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > MAX_CHANGED {
            return Err(Fail::error(format!(
                "{path} has {size} bytes; files above {MAX_CHANGED} are changed with Bash"
            )));
        }
        let file = self.root.read(place);
        let (file, bytes) = file
            .and_then(|mut file| Ok((whole(&mut file)?, file)))
            .map(|(bytes, file)| (file, bytes))
            .map_err(|error| Fail::error(format!("{path} cannot be read: {error}")))?;
        // Of the descriptor, after the read: what was read is what is compared.
        let stat = rustix::fs::fstat(&file)
            .map_err(|error| Fail::error(format!("{path} cannot be looked at: {error}")))?;
        Ok(Some(Present {
            digest: Digest::of(&bytes),
            bytes,
            stat,
            file,
        }))
    }

    /// Puts `new` in place of `present` at `place`. `say` is the text of
    /// success.
    pub(super) fn change(
        &mut self,
        tool: &str,
        place: &Place,
        present: Option<&Present>,
        new: &[u8],
        say: String,
        gate: &mut dyn Gate,
    ) -> Result<Done, Fail> {
        let after = Digest::of(new);
        if present.is_some_and(|present| present.digest == after) {
            self.known.insert(place.rel.clone(), after);
            return Ok(Done::text(format!(
                "OK: {} already has exactly this content; nothing was changed",
                place.rel.display()
            )));
        }
        let Some(path) = place.rel.to_str() else {
            return Err(Fail::error("the name of the file is not UTF-8"));
        };
        let cannot =
            |what: &str, error: io::Error| format!("{path} was not changed: {what}: {error}");

        // Missing folders are a change too, so they wait for the journal.
        let waiting = matches!(&place.what, What::Missing(above) if !above.is_empty());
        let mut staged = None;
        if !waiting {
            let (folder, _) = self.root.slot(place);
            let folder = folder
                .try_clone_to_owned()
                .map_err(|error| Fail::Error(cannot("its folder", error)))?;
            let made = Staged::new(folder, present, new)
                .map_err(|error| Fail::Error(cannot("the new content cannot be written", error)))?;
            staged = Some(made);
        }
        crash_point("staged");
        let temp = temp_name();
        let plan = Plan {
            tool: tool.to_owned(),
            path: path.to_owned(),
            sha_before: present.map(|present| present.digest),
            sha_after: after,
            mode: present.map(|present| present.stat.st_mode & 0o7777),
            temp: place
                .rel
                .with_file_name(&temp)
                .to_string_lossy()
                .into_owned(),
            diff: text::diff(path, present.map(|present| present.bytes.as_slice()), new),
        };
        gate.ask(plan, present.map(|present| present.bytes.as_slice()))
            .map_err(|why| Fail::Error(format!("{path} was not changed: {why}")))?;
        crash_point("proceeded");

        // From here on the end is told to the journal.
        let aborted = |what: &str, error| Fail::Aborted(cannot(what, error));
        let staged = match staged {
            Some(staged) => staged,
            None => {
                let folder = self
                    .root
                    .make_parents(place)
                    .map_err(|error| aborted("its folder cannot be made", error))?;
                Staged::new(folder, present, new)
                    .map_err(|error| aborted("the new content cannot be written", error))?
            }
        };
        still_the_same(&self.root, place, present).map_err(|error| match error {
            Some(error) => aborted("it cannot be looked at again", error),
            None => Fail::Aborted(format!(
                "{path} was changed by somebody else meanwhile and was left alone; read it again"
            )),
        })?;
        let name = place.rel.file_name().unwrap_or_default();
        staged
            .publish(name, present.is_some(), &temp, new)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EEXIST) => Fail::Aborted(format!(
                    "{path} appeared meanwhile and was left alone; read it first"
                )),
                _ => aborted("the new content cannot be put in place", error),
            })?;
        crash_point("published");
        let warning = staged
            .flush_folder()
            .err()
            .map(|error| format!("the change is made, but its folder was not flushed: {error}"));
        crash_point("flushed");
        self.known.insert(place.rel.clone(), after);
        let text = match &warning {
            Some(warning) => format!("{say}\n[committed with a warning, do not retry: {warning}]"),
            None => say,
        };
        Ok(Done {
            text,
            image: None,
            outcome: Some(Outcome::Committed { warning }),
        })
    }
}

fn whole(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_CHANGED + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_CHANGED {
        return Err(io::Error::other("it grew while it was read"));
    }
    Ok(bytes)
}

/// Walks to the file again. `Err(None)`: it is not what it was.
fn still_the_same(
    root: &Root,
    place: &Place,
    present: Option<&Present>,
) -> Result<(), Option<io::Error>> {
    let now = root.find_exact(&place.rel).map_err(|_| None)?;
    let (Some(present), What::File(stat)) = (present, &now.what) else {
        return match (present, &now.what) {
            (None, What::Missing(_)) => Ok(()),
            _ => Err(None),
        };
    };
    let seen = &present.stat;
    let facts = |stat: &Stat| {
        (
            (
                stat.st_dev,
                stat.st_ino,
                stat.st_size,
                stat.st_mode,
                stat.st_nlink,
            ),
            (
                stat.st_mtime,
                stat.st_mtime_nsec,
                stat.st_ctime,
                stat.st_ctime_nsec,
            ),
        )
    };
    if facts(stat) != facts(seen) {
        return Err(None);
    }
    // Times are only as fine as the kernel's tick: a change within the tick in
    // which the file was read shows in its bytes alone.
    let mut file = root.read(&now).map_err(Some)?;
    let bytes = whole(&mut file).map_err(Some)?;
    if Digest::of(&bytes) != present.digest {
        return Err(None);
    }
    Ok(())
}

/// New bytes, written and flushed, not yet in place.
#[derive(Debug)]
struct Staged {
    folder: OwnedFd,
    file: File,
    /// The name of the bytes, where they have one already.
    named: Option<OsString>,
    mode: Mode,
}

impl Staged {
    fn new(folder: OwnedFd, present: Option<&Present>, new: &[u8]) -> io::Result<Staged> {
        // A new file gets what the umask leaves; a changed one is private
        // until it has the mode of the old one.
        let mode = Mode::from_raw_mode(if present.is_some() { 0o600 } else { 0o666 });
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, named) = match rustix::fs::openat(&folder, ".", flags, mode) {
            Ok(fd) => (File::from(fd), None),
            // Not every file system knows files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                let name = temp_name();
                (create(folder.as_fd(), &name, mode)?, Some(name.into()))
            }
            Err(error) => return Err(error.into()),
        };
        let mut staged = Staged {
            folder,
            file,
            named,
            mode,
        };
        fill(&mut staged.file, present, new)?;
        Ok(staged)
    }

    /// Puts the bytes in place under `name`. `temp` is the name that the
    /// journal knows, `new` the bytes once more for file systems on which a
    /// file without a name cannot be given one.
    fn publish(&self, name: &OsStr, replace: bool, temp: &str, new: &[u8]) -> io::Result<()> {
        let folder = self.folder.as_fd();
        let named = match &self.named {
            Some(named) => named.clone(),
            None => {
                let target = if replace { OsStr::new(temp) } else { name };
                match self.link(target) {
                    Ok(()) if !replace => return Ok(()),
                    Ok(()) => target.to_owned(),
                    Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                    // No /proc to link from: write them again, under a name.
                    Err(_) => {
                        let mut file = create(folder, temp, self.mode)?;
                        copy_facts(&self.file, &file)?;
                        file.write_all(new)?;
                        file.sync_all()?;
                        OsString::from(temp)
                    }
                }
            }
        };
        crash_point("named");
        let done = if replace {
            rustix::fs::renameat(folder, &named, folder, name)
        } else {
            rename_new(folder, &named, name)
        };
        if done.is_err() {
            let _ = rustix::fs::unlinkat(folder, &named, AtFlags::empty());
        }
        Ok(done?)
    }

    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(
            rustix::fs::CWD,
            own,
            &self.folder,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )
    }

    fn flush_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.folder)?)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a publication the name is gone already, or another file's
        // under a name of 80 random bits: neither can be hit by this.
        if let Some(name) = &self.named {
            let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
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

fn create(folder: BorrowedFd<'_>, name: &str, mode: Mode) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, mode)?))
}

/// Writes the bytes, gives the file owner, mode and attributes of the one that
/// it replaces, and flushes it.
fn fill(file: &mut File, present: Option<&Present>, new: &[u8]) -> io::Result<()> {
    file.write_all(new)?;
    if let Some(present) = present {
        copy_facts_of(&present.stat, &present.file, file)?;
    }
    file.sync_all()
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
