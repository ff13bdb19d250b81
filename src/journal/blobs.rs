//! Content as it was before a change.
//!
//! Small content lies beside its record in the database: one flush keeps both.
//! Larger content is a file named by its BLAKE3, so that equal content is kept
//! once. The whole is bounded; when it is full, the blobs of settled records
//! go first, oldest first, and what cannot be kept is said in the record.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{OptionalExtension, Transaction, params};

use super::record::{Content, PreImage, Record};
use super::{JournalError, now_ms, rows};
use crate::store::{Database, StateDir, make_folder, open_file};

/// A blob without a record may belong to a change that is about to be
/// recorded; past this age it belongs to one that never was.
const ORPHAN_AGE: Duration = Duration::from_secs(3600);

/// How much old content is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Up to this size content lies in the database.
    pub inline: u64,
    /// Larger content than this is not kept.
    pub one: u64,
    /// All blob files together.
    pub total: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            inline: 32 << 10,
            one: 16 << 20,
            total: 512 << 20,
        }
    }
}

/// Decides where `old` is kept and puts it there, unless that is the database.
pub(super) fn keep(
    state: &StateDir,
    database: &Database,
    bounds: &Bounds,
    old: Option<&[u8]>,
) -> Result<PreImage, JournalError> {
    let Some(bytes) = old else {
        return Ok(PreImage::Absent);
    };
    let content = Content {
        hash: blake3::hash(bytes).to_hex().to_string(),
        size: bytes.len() as u64,
    };
    if content.size <= bounds.inline {
        return Ok(PreImage::Inline(content));
    }
    if content.size > bounds.one {
        return Ok(PreImage::NotKept(format!(
            "{} bytes, at most {} are kept of one file",
            content.size, bounds.one
        )));
    }
    let fits = database.write(|tx| make_room(state, database, tx, bounds.total, &content))?;
    if !fits {
        return Ok(PreImage::NotKept(format!(
            "the {} bytes for old contents are used up by changes that nobody acknowledged",
            bounds.total
        )));
    }
    store(&state.blobs(), &content, bytes)?;
    Ok(PreImage::File(content))
}

/// Puts the blob of a record back if an eviction took it since [`keep`].
pub(super) fn ensure(
    state: &StateDir,
    pre_image: &PreImage,
    old: Option<&[u8]>,
) -> Result<(), JournalError> {
    match (pre_image, old) {
        (PreImage::File(content), Some(bytes)) => store(&state.blobs(), content, bytes),
        _ => Ok(()),
    }
}

/// The old content of a record, checked against its hash.
pub(super) fn load(
    state: &StateDir,
    database: &Database,
    record: &Record,
) -> Result<Option<Vec<u8>>, JournalError> {
    let lost = |what: &str| JournalError::PreImage {
        id: record.id.clone(),
        what: what.to_owned(),
    };
    let (content, bytes) = match &record.pre_image {
        PreImage::Absent => return Ok(None),
        PreImage::NotKept(why) => return Err(lost(why)),
        PreImage::Inline(content) => (
            content,
            database
                .read(|tx| rows::inline_bytes(database, tx, record.seq))?
                .ok_or_else(|| lost("the bytes are gone"))?,
        ),
        PreImage::File(content) => (
            content,
            read_blob(&state.blobs().join(&content.hash), content.size)
                .map_err(|error| lost(&format!("the blob cannot be read: {error}")))?,
        ),
    };
    if bytes.len() as u64 != content.size || blake3::hash(&bytes).to_hex().as_str() != content.hash
    {
        return Err(lost("the bytes are not those that were kept"));
    }
    Ok(Some(bytes))
}

fn read_blob(path: &Path, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more than expected, so that a longer file is seen as such.
    File::open(path)?
        .take(size.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a blob unless it is there: whole under another name, then renamed.
fn store(folder: &Path, content: &Content, bytes: &[u8]) -> Result<(), JournalError> {
    let path = folder.join(&content.hash);
    let keep = |source| JournalError::Keep {
        path: path.clone(),
        source,
    };
    make_folder(folder)?;
    let there = read_blob(&path, content.size)
        .is_ok_and(|found| blake3::hash(&found).to_hex().as_str() == content.hash);
    if !there {
        let temp = folder.join(format!(".{}", ulid::Ulid::generate()));
        let written = write_blob(&temp, &path, bytes);
        if written.is_err() {
            let _ = fs::remove_file(&temp);
        }
        written.map_err(keep)?;
    }
    // Also when it was there: whoever made it may not have come this far.
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(keep)
}

fn write_blob(temp: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open_file(temp).map_err(io::Error::other)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temp, path)
}

/// Whether `content` fits into the bound, after evicting what may go.
fn make_room(
    state: &StateDir,
    database: &Database,
    tx: &Transaction<'_>,
    total: u64,
    content: &Content,
) -> Result<bool, JournalError> {
    let wrap = |source| JournalError::from(database.error(source));
    let used: i64 = tx
        .query_row(
            "SELECT coalesce(sum(pre_size), 0) FROM (
                 SELECT DISTINCT pre_hash, pre_size FROM mutation
                 WHERE pre_kind = 'file' AND evicted_ms IS NULL AND pre_hash <> ?1)",
            [&content.hash],
            |row| row.get(0),
        )
        .map_err(wrap)?;
    let mut used = u64::try_from(used).unwrap_or(u64::MAX);
    if used.saturating_add(content.size) <= total {
        return Ok(true);
    }
    sweep_orphans(&state.blobs(), database, tx)?;
    let settled: Vec<(String, i64)> = tx
        .prepare(
            "SELECT pre_hash, pre_size FROM mutation
             WHERE pre_kind = 'file' AND evicted_ms IS NULL AND pre_hash <> ?1
             GROUP BY pre_hash
             HAVING min(acknowledged_ms IS NOT NULL OR state = 'aborted') = 1
             ORDER BY max(seq)",
        )
        .and_then(|mut statement| {
            statement
                .query_map([&content.hash], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .map_err(wrap)?;
    for (hash, size) in settled {
        tx.execute(
            "UPDATE mutation SET evicted_ms = ?1 WHERE pre_hash = ?2 AND pre_kind = 'file'",
            params![now_ms(), hash],
        )
        .map_err(wrap)?;
        remove(&state.blobs().join(&hash))?;
        used = used.saturating_sub(u64::try_from(size).unwrap_or(0));
        if used.saturating_add(content.size) <= total {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes blobs and half-written ones that no record names.
fn sweep_orphans(
    folder: &Path,
    database: &Database,
    tx: &Transaction<'_>,
) -> Result<(), JournalError> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let age = entry
            .metadata()
            .and_then(|found| found.modified())
            .map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        if !age.is_ok_and(|age| age > ORPHAN_AGE) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let named = tx
            .query_row(
                "SELECT 1 FROM mutation WHERE pre_hash = ?1 AND pre_kind = 'file'
                 AND evicted_ms IS NULL",
                [&name],
                |_| Ok(()),
            )
            .optional()
            .map_err(|source| database.error(source))?;
        if named.is_none() {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), JournalError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(JournalError::Keep {
            path: PathBuf::from(path),
            source,
        }),
        _ => Ok(()),
    }
}
