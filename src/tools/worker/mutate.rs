//! Changing a file, in the order in which nothing can be lost.
//!
//! 1. The new bytes are written, under no name where the file system allows
//!    that, else under a temporary one.
//! 2. The intent goes out and comes back recorded; the new bytes are flushed
//!    meanwhile, so that the two waits for the disk are one.
//! 3. The target is looked at again: it must still be what was read.
//! 4. One rename (or link, for a new file) puts the bytes in place.
//! 5. The folder is flushed.
//!
//! A crash before 4 leaves the old file, after it the new one, and in either
//! case a record that tells which, as soon as 2 is past.

mod staged;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};

use rustix::fs::{Access, AtFlags, Stat};

use super::super::proto::{Outcome, Plan};
use super::protected::protected;
use super::{Done, Fail, Gate, MAX_CHANGED, Worker, text};
use crate::journal::{Digest, crash_point};
use crate::workspace::{Place, Root, What};
use staged::Staged;

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
        // Replacing would work where writing would not: the folder decides over
        // names, the file over its content. A file that says no is left alone.
        let (folder, name) = self.root.slot(place);
        rustix::fs::accessat(folder, name, Access::WRITE_OK, AtFlags::empty()).map_err(
            |error| {
                Fail::error(format!(
                    "{path} cannot be written: {}",
                    io::Error::from(error)
                ))
            },
        )?;
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
        let temp = temp_name();
        let mut staged = None;
        if !waiting {
            let (folder, _) = self.root.slot(place);
            let folder = folder
                .try_clone_to_owned()
                .map_err(|error| Fail::Error(cannot("its folder", error)))?;
            let made = Staged::new(folder, &temp, present, new)
                .map_err(|error| Fail::Error(cannot("the new content cannot be written", error)))?;
            staged = Some(made);
        }
        crash_point("staged");
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
        };
        let old = present.map(|present| present.bytes.as_slice());
        let (mut flushed, mut diff) = (Ok(()), None);
        let mut flush = || {
            if let Some(staged) = &staged {
                flushed = staged.flush();
            }
            diff = text::diff(path, old, new);
        };
        gate.ask(plan, old, &mut flush)
            .map_err(|why| Fail::Error(format!("{path} was not changed: {why}")))?;
        crash_point("proceeded");

        // From here on the end is told to the journal.
        let aborted = |what: &str, error| Fail::Aborted(cannot(what, error));
        flushed.map_err(|error| aborted("the new content cannot be flushed", error))?;
        let staged = match staged {
            Some(staged) => staged,
            None => {
                let folder = self
                    .root
                    .make_parents(place)
                    .map_err(|error| aborted("its folder cannot be made", error))?;
                Staged::new(folder, &temp, present, new)
                    .and_then(|staged| staged.flush().map(|()| staged))
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
            .publish(name, present.is_some(), new)
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
            diff,
        })
    }
}

fn whole(file: &mut File) -> io::Result<Vec<u8>> {
    // The length is a guess that saves reads; the bound is what holds.
    let length = file.metadata()?.len().min(MAX_CHANGED);
    let mut bytes = Vec::with_capacity(length as usize + 1);
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
