//! The SQLite database of a state folder.
//!
//! Write-ahead log, `synchronous=FULL`: when a transaction has returned, it is
//! on the disk. Several servers share the file; SQLite's own locks order them
//! and the busy handler waits instead of failing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::private::check_file;
use super::{StateDir, StoreError, check_folder, make_folder, open_file};

/// Layout steps, oldest first; step n brings a database from n to n+1. A step
/// that was shipped is never edited.
const STEPS: &[&str] = &[include_str!("schema/001_journal.sql")];

/// How long one process waits for another's transaction. Transactions here are
/// milliseconds long, so this is only reached when something is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// The database, opened at its first use.
#[derive(Debug)]
pub struct Database {
    folder: PathBuf,
    file: PathBuf,
    opened: Mutex<Option<Opened>>,
}

/// A connection and the file that it was opened on.
#[derive(Debug)]
struct Opened {
    connection: Connection,
    identity: (u64, u64),
}

impl Database {
    /// Names the database of `state`; touches nothing.
    pub fn new(state: &StateDir) -> Self {
        Database {
            folder: state.root().to_owned(),
            file: state.database(),
            opened: Mutex::new(None),
        }
    }

    /// Whether there is one yet; refuses an unsafe file.
    pub fn exists(&self) -> Result<bool, StoreError> {
        check_file(&self.file).map(|found| found.is_some())
    }

    /// Runs `work` in a transaction that excludes other writers, and commits
    /// when it succeeds. The commit is on the disk when this returns.
    pub fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(TransactionBehavior::Immediate, "FULL", work)
    }

    /// As [`Database::write`], but the commit may be lost when the machine
    /// loses power (never when a process dies). For facts that can be found
    /// out again.
    pub fn write_soft<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(TransactionBehavior::Immediate, "NORMAL", work)
    }

    /// Runs `work` on one unmoving view of the database.
    pub fn read<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(TransactionBehavior::Deferred, "FULL", work)
    }

    /// Wraps what SQLite said with the file that it said it of.
    pub fn error(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Database {
            path: self.file.clone(),
            source,
        }
    }

    fn transact<T, E: From<StoreError>>(
        &self,
        behavior: TransactionBehavior,
        synchronous: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut slot = self.lock();
        // Every time, not only at the first: a mode that was loosened or a file
        // that was replaced while we run is as bad as one found at the start.
        if let Some(opened) = slot.as_ref() {
            check_folder(&self.folder)?;
            if check_file(&self.file)? != Some(opened.identity) {
                *slot = None;
            }
        }
        let opened = match slot.as_mut() {
            Some(opened) => opened,
            None => slot.insert(self.open()?),
        };
        let connection = &mut opened.connection;
        let wrap = |source| StoreError::Database {
            path: self.file.clone(),
            source,
        };
        connection
            .pragma_update(None, "synchronous", synchronous)
            .map_err(wrap)?;
        let transaction = connection
            .transaction_with_behavior(behavior)
            .map_err(wrap)?;
        let done = work(&transaction)?;
        transaction.commit().map_err(wrap)?;
        Ok(done)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Opened>> {
        // A panic inside a transaction rolled it back; the connection is sound.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<Opened, StoreError> {
        make_folder(&self.folder)?;
        // Made here first: SQLite gives its side files the mode of this one.
        drop(open_file(&self.file)?);
        let wrap = |source| StoreError::Database {
            path: self.file.clone(),
            source,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.file, flags).map_err(wrap)?;
        connection.busy_timeout(PATIENCE).map_err(wrap)?;
        use_write_ahead_log(&connection).map_err(wrap)?;
        // Removing a cell overwrites it: pre-images may hold private text.
        connection
            .pragma_update(None, "secure_delete", true)
            .map_err(wrap)?;
        connection
            .pragma_update(None, "foreign_keys", true)
            .map_err(wrap)?;
        lay_out(&mut connection, &self.file)?;
        let identity = check_file(&self.file)?.ok_or_else(|| StoreError::Io {
            act: "open",
            path: self.file.clone(),
            source: io::ErrorKind::NotFound.into(),
        })?;
        Ok(Opened {
            connection,
            identity,
        })
    }
}

/// Switches to WAL. The switch wants the file for itself and reports "busy"
/// without asking the busy handler, so several first starts at once would fail
/// at random: hence the loop.
fn use_write_ahead_log(connection: &Connection) -> rusqlite::Result<()> {
    let started = Instant::now();
    loop {
        let mode =
            connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(_) => {
                return Err(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
                    Some("this file system cannot hold a write-ahead log".to_owned()),
                ));
            }
            Err(error) if is_busy(&error) && started.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn lay_out(connection: &mut Connection, file: &Path) -> Result<(), StoreError> {
    let wrap = |source| StoreError::Database {
        path: file.to_owned(),
        source,
    };
    let known = STEPS.len() as i64;
    let version = |connection: &Connection| {
        connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
    };
    if version(connection).map_err(wrap)? == known {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(wrap)?;
    // Again under the lock: another process may have been quicker.
    let found = version(&transaction).map_err(wrap)?;
    let Some(steps) = usize::try_from(found).ok().and_then(|at| STEPS.get(at..)) else {
        return Err(StoreError::TooNew {
            path: file.to_owned(),
            found,
            known,
        });
    };
    for step in steps {
        transaction.execute_batch(step).map_err(wrap)?;
    }
    transaction
        .pragma_update(None, "user_version", known)
        .map_err(wrap)?;
    transaction.commit().map_err(wrap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn count(database: &Database) -> Result<i64, StoreError> {
        database.read(|tx| {
            tx.query_row("SELECT count(*) FROM mutation", [], |row| row.get(0))
                .map_err(|source| database.error(source))
        })
    }

    #[test]
    fn naming_it_touches_nothing_and_using_it_makes_private_files() {
        let dir = tempfile::tempdir().expect("tempdir");
        let state = StateDir::new(dir.path().join("state"));
        let database = Database::new(&state);
        assert!(!database.exists().expect("exists"));
        assert!(!state.root().exists());
        assert_eq!(count(&database).expect("count"), 0);
        assert!(database.exists().expect("exists"));
        for entry in fs::read_dir(state.root()).expect("list") {
            let entry = entry.expect("entry");
            let mode = entry.metadata().expect("stat").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{:?}", entry.file_name());
        }
    }

    #[test]
    fn a_mode_loosened_while_it_is_open_is_noticed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let state = StateDir::new(dir.path().join("state"));
        let database = Database::new(&state);
        count(&database).expect("count");
        fs::set_permissions(state.database(), fs::Permissions::from_mode(0o644)).expect("chmod");
        assert_eq!(count(&database).expect_err("0644").code(), "state_unsafe");
        fs::set_permissions(state.database(), fs::Permissions::from_mode(0o600)).expect("chmod");
        count(&database).expect("the twin: private again, it works");
    }

    #[test]
    fn a_newer_layout_and_a_file_that_is_no_database_are_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        let state = StateDir::new(dir.path().join("state"));
        count(&Database::new(&state)).expect("count");
        let raw = Connection::open(state.database()).expect("open");
        raw.pragma_update(None, "user_version", 99).expect("set");
        drop(raw);
        let newer = count(&Database::new(&state)).expect_err("newer");
        assert_eq!(newer.code(), "state_too_new");

        let state = StateDir::new(dir.path().join("other"));
        make_folder(state.root()).expect("make");
        drop(open_file(&state.database()).expect("open"));
        fs::write(state.database(), b"this is no database, it is a text").expect("write");
        let garbage = count(&Database::new(&state)).expect_err("garbage");
        assert_eq!(garbage.code(), "state_database");
    }

    #[test]
    fn a_database_replaced_while_it_is_open_is_opened_anew() {
        let dir = tempfile::tempdir().expect("tempdir");
        let state = StateDir::new(dir.path().join("state"));
        let database = Database::new(&state);
        count(&database).expect("count");
        for name in ["delegate.db", "delegate.db-wal", "delegate.db-shm"] {
            let _ = fs::remove_file(state.root().join(name));
        }
        assert!(!database.exists().expect("exists"));
        count(&database).expect("count");
        assert!(database.exists().expect("exists"));
    }

    #[test]
    fn many_first_openers_at_once_all_succeed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let state = StateDir::new(dir.path().join("state"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| count(&Database::new(&state)).expect("count"));
            }
        });
    }
}
