//! What is on the disk where records say something was changed.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::verdict::Found;
use super::{Digest, JournalError};
use crate::workspace::{Place, Root, What, WorkspaceId};

/// Larger files are not compared: no file tool writes any near this size.
const MAX_COMPARED: u64 = 1 << 30;

/// Looks at each path once, below `root` and through no link.
pub(super) fn digests<'a>(
    ws: &WorkspaceId,
    root: &Path,
    paths: impl Iterator<Item = &'a str>,
) -> Result<HashMap<String, Found>, JournalError> {
    let other = || JournalError::OtherWorkspace {
        root: root.to_owned(),
    };
    let held = Root::open(root).map_err(|_| other())?;
    let now = WorkspaceId::of(root).map_err(|_| other())?;
    if held.identity() != (ws.dev, ws.ino) || now != *ws {
        return Err(other());
    }
    let mut found = HashMap::new();
    for path in paths {
        if !found.contains_key(path) {
            found.insert(path.to_owned(), look(&held, path));
        }
    }
    Ok(found)
}

fn look(root: &Root, path: &str) -> Found {
    match root.find_exact(Path::new(path)) {
        Ok(place) => match &place.what {
            What::File(stat) if u64::try_from(stat.st_size).is_ok_and(|n| n <= MAX_COMPARED) => {
                digest(root, &place).map_or(Found::Unknown, Found::Content)
            }
            What::Missing(_) => Found::Absent,
            _ => Found::Unknown,
        },
        Err(_) => Found::Unknown,
    }
}

fn digest(root: &Root, place: &Place) -> io::Result<Digest> {
    let mut file = root.read(place)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(Digest::finish(hasher)),
            Ok(length) => hasher.update(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
