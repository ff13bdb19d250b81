//! What file tools changed, on record before it changed.
//!
//! [`Journal::begin`] puts an [`Intent`] on the disk; only then may the caller
//! change the file; [`Journal::close`] says how it went. After a crash at any
//! instruction, [`Journal::pending`] compares what is recorded with what is on
//! the disk. Nothing here ever changes a file of a workspace.
//!
//! `record` and `verdict` are pure; `disk`, `blobs` and this file do the effects.

mod blobs;
#[cfg(test)]
pub(crate) mod crash;
mod digest;
mod disk;
mod error;
mod record;
mod rows;
mod verdict;

pub use blobs::Bounds;
pub use digest::Digest;
pub use error::JournalError;
pub use record::{Content, Intent, PreImage, Record, State};
pub use verdict::Status;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::store::{Database, StateDir};
use crate::workspace::WorkspaceId;

/// At most this many ids in one acknowledgement, as deepseek-as-subagent has it.
const MAX_ACKNOWLEDGED: usize = 128;

/// How a recorded change went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The new bytes are in place.
    Committed {
        /// What went wrong after that, if anything.
        warning: Option<String>,
    },
    /// The file was left as it was, and the tool said so.
    Aborted {
        /// Why.
        reason: String,
    },
}

/// A recorded change that nobody acknowledged yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pending {
    /// 32 lowercase hex digits.
    pub transaction_id: String,
    /// Tool that made it.
    pub tool: String,
    /// Path relative to the workspace.
    pub path: String,
    /// Digest of the new content; `None` for a removal.
    pub sha256: Option<Digest>,
    /// What the disk says.
    pub status: Status,
    /// What went wrong after the change.
    pub warnings: Vec<String>,
    /// Place in the order of all changes.
    pub order: i64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The run that made it.
    pub run_id: String,
    /// Digest of the content before; `None` where there was no file.
    pub sha256_before: Option<Digest>,
}

/// What an acknowledgement did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ack {
    /// Ids that are settled now, sorted.
    pub acknowledged: Vec<String>,
    /// Well-formed ids that are not pending in this workspace, sorted.
    pub unknown: Vec<String>,
    /// Ids that are still pending, in the order of the changes.
    pub remaining: Vec<String>,
}

/// The journal of a state folder.
#[derive(Debug)]
pub struct Journal {
    state: StateDir,
    database: Database,
    bounds: Bounds,
}

impl Journal {
    /// Names the journal of `state_dir`; touches nothing until it is used.
    pub fn open(state_dir: &Path) -> Result<Journal, JournalError> {
        Ok(Self::with_bounds(state_dir, Bounds::default()))
    }

    /// As [`Journal::open`], with other bounds on what is kept of old content.
    pub fn with_bounds(state_dir: &Path, bounds: Bounds) -> Journal {
        let state = StateDir::new(state_dir);
        Journal {
            database: Database::new(&state),
            state,
            bounds,
        }
    }

    /// Puts an intended change on the disk and gives its transaction id. The
    /// file may be changed when, and only when, this has returned `Ok`.
    pub fn begin(&self, intent: &Intent) -> Result<String, JournalError> {
        record::check(intent)?;
        crash_point("begin");
        let old = intent.pre_image.as_deref();
        let pre_image = blobs::keep(&self.state, &self.database, &self.bounds, old)?;
        crash_point("blob kept");
        let id = fresh_id();
        let record = Record::new(id.clone(), now_ms(), intent, pre_image);
        self.database.write(|tx| {
            rows::insert(&self.database, tx, &record, old)?;
            // Under the write lock, which an eviction takes as well.
            blobs::ensure(&self.state, &record.pre_image, old)?;
            crash_point("inserted");
            Ok::<_, JournalError>(())
        })?;
        crash_point("begun");
        Ok(id)
    }

    /// Says how the change of a record went. Losing this to a power cut loses
    /// nothing that [`Journal::pending`] cannot find out from the disk.
    pub fn close(&self, id: &str, outcome: Closed) -> Result<(), JournalError> {
        let (state, warning) = match outcome {
            Closed::Committed { warning } => (State::Committed, warning),
            Closed::Aborted { reason } => (State::Aborted, Some(reason)),
        };
        let warning = warning.map(|text| record::bounded(&text));
        let found = self
            .database
            .write_soft(|tx| rows::close(&self.database, tx, id, state, warning.as_deref()))?;
        if !found {
            return Err(JournalError::UnknownId { id: id.to_owned() });
        }
        Ok(())
    }

    /// Every change in `ws` that nobody acknowledged, oldest first, each
    /// compared with what is on the disk at `root` now. Works without a key,
    /// with the model switched off, and while a run is active.
    pub fn pending(&self, ws: &WorkspaceId, root: &Path) -> Result<Vec<Pending>, JournalError> {
        let records = self.chain(ws)?;
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let found = disk::digests(ws, root, records.iter().map(|record| record.path.as_str()))?;
        let judged = verdict::judge(&records, &found);
        Ok(records
            .into_iter()
            .zip(judged)
            .filter_map(|(record, status)| Some(pending_entry(record, status?)))
            .collect())
    }

    /// Whether anything in `ws` is pending: ids in order. Reads no workspace.
    pub fn pending_ids(&self, ws: &WorkspaceId) -> Result<Vec<String>, JournalError> {
        let records = self.chain(ws)?;
        Ok(records
            .into_iter()
            .filter(Record::is_pending)
            .map(|record| record.id)
            .collect())
    }

    /// Settles exactly these records of `ws`. One id of a wrong form and
    /// nothing is settled. Never touches a file.
    pub fn acknowledge(&self, ws: &WorkspaceId, ids: &[String]) -> Result<Ack, JournalError> {
        if ids.len() > MAX_ACKNOWLEDGED {
            return Err(JournalError::TooManyIds {
                given: ids.len(),
                limit: MAX_ACKNOWLEDGED,
            });
        }
        if let Some(bad) = ids.iter().find(|id| !record::is_id(id)) {
            return Err(JournalError::BadId {
                id: record::bounded(bad),
            });
        }
        // The whole chain is read first: beside an unreadable record nothing
        // is settled.
        let chain = self.chain(ws)?;
        let mut asked: Vec<&String> = ids.iter().collect();
        asked.sort_unstable();
        asked.dedup();
        let (known, unknown): (Vec<&String>, Vec<&String>) = asked
            .into_iter()
            .partition(|id| chain.iter().any(|r| r.is_pending() && r.id == **id));
        if !known.is_empty() {
            let now = now_ms();
            self.database
                .write(|tx| rows::acknowledge(&self.database, tx, ws, &known, now))?;
        }
        let remaining = chain
            .iter()
            .filter(|record| record.is_pending() && !known.contains(&&record.id))
            .map(|record| record.id.clone())
            .collect();
        Ok(Ack {
            acknowledged: known.into_iter().cloned().collect(),
            unknown: unknown.into_iter().cloned().collect(),
            remaining,
        })
    }

    /// Every record of a run, in order.
    pub fn of_run(&self, run_id: &str) -> Result<Vec<Record>, JournalError> {
        if !self.database.exists()? {
            return Ok(Vec::new());
        }
        self.database
            .read(|tx| rows::of_run(&self.database, tx, run_id))
    }

    /// The content that a record's file had before, where it was kept.
    pub fn pre_image(&self, record: &Record) -> Result<Option<Vec<u8>>, JournalError> {
        blobs::load(&self.state, &self.database, record)
    }

    /// Temporary names that changes cut off in the middle may have left in a
    /// workspace, relative to it.
    pub fn leftovers(&self, ws: &WorkspaceId) -> Result<Vec<String>, JournalError> {
        Ok(self
            .chain(ws)?
            .into_iter()
            .filter(|record| record.state == State::Open)
            .filter_map(|record| record.temp)
            .collect())
    }

    /// The records of `ws` from the oldest pending one on, later settled ones
    /// included, since they decide what became of earlier ones.
    fn chain(&self, ws: &WorkspaceId) -> Result<Vec<Record>, JournalError> {
        if !self.database.exists()? {
            return Ok(Vec::new());
        }
        self.database.read(|tx| rows::chain(&self.database, tx, ws))
    }
}

fn pending_entry(record: Record, status: Status) -> Pending {
    Pending {
        transaction_id: record.id,
        tool: record.tool,
        path: record.path,
        sha256: record.sha_after,
        status,
        warnings: record.warning.into_iter().collect(),
        order: record.seq,
        at_ms: record.at_ms,
        run_id: record.run,
        sha256_before: record.sha_before,
    }
}

/// A ULID in hex: 80 random bits behind the time.
fn fresh_id() -> String {
    format!("{:032x}", ulid::Ulid::generate().0)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

/// Where the crash tests may kill the process. Nothing outside of them.
pub(crate) fn crash_point(name: &'static str) {
    #[cfg(test)]
    crash::point(name);
    #[cfg(not(test))]
    let _ = name;
}

#[cfg(test)]
mod tests;
