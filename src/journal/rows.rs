//! Records in and out of SQLite. Whatever comes out is checked as if a
//! stranger had written it.

use std::str::FromStr;

use rusqlite::{Row, Transaction, named_params, params};

use super::record::{self, Content, PreImage, Record, State};
use super::{Digest, JournalError};
use crate::store::Database;
use crate::workspace::WorkspaceId;

const COLUMNS: &str = "seq, id, at_ms, run, tool, workspace, born, path, sha_before, sha_after, \
                       mode, temp, pre_kind, pre_hash, pre_size, pre_note, seal, state, warning, \
                       acknowledged_ms";

pub(super) fn insert(
    database: &Database,
    tx: &Transaction<'_>,
    record: &Record,
    old: Option<&[u8]>,
) -> Result<(), JournalError> {
    let (kind, content, note) = match &record.pre_image {
        PreImage::Absent => ("absent", None, None),
        PreImage::Inline(content) => ("inline", Some(content), None),
        PreImage::File(content) => ("file", Some(content), None),
        PreImage::NotKept(why) => ("not_kept", None, Some(why)),
    };
    let size = content.map(|content| i64::try_from(content.size).unwrap_or(i64::MAX));
    tx.execute(
        "INSERT INTO mutation (id, at_ms, run, tool, workspace, born, path, sha_before, sha_after,
             mode, temp, pre_kind, pre_bytes, pre_hash, pre_size, pre_note, seal, state)
         VALUES (:id, :at_ms, :run, :tool, :workspace, :born, :path, :sha_before, :sha_after,
             :mode, :temp, :pre_kind, :pre_bytes, :pre_hash, :pre_size, :pre_note, :seal, :state)",
        named_params! {
            ":id": record.id,
            ":at_ms": record.at_ms,
            ":run": record.run,
            ":tool": record.tool,
            ":workspace": record.workspace,
            ":born": record.born,
            ":path": record.path,
            ":sha_before": record.sha_before.map(|digest| digest.to_string()),
            ":sha_after": record.sha_after.map(|digest| digest.to_string()),
            ":mode": record.mode,
            ":temp": record.temp,
            ":pre_kind": kind,
            ":pre_bytes": if kind == "inline" { old } else { None },
            ":pre_hash": content.map(|content| &content.hash),
            ":pre_size": size,
            ":pre_note": note,
            ":seal": record.seal(),
            ":state": record.state.name(),
        },
    )
    .map_err(|source| database.error(source))?;
    Ok(())
}

/// Closes an open record; `false` when there is none of that id.
pub(super) fn close(
    database: &Database,
    tx: &Transaction<'_>,
    id: &str,
    state: State,
    warning: Option<&str>,
) -> Result<bool, JournalError> {
    let changed = tx
        .execute(
            "UPDATE mutation SET state = ?1, warning = ?2 WHERE id = ?3 AND state = 'open'",
            params![state.name(), warning, id],
        )
        .map_err(|source| database.error(source))?;
    Ok(changed == 1)
}

pub(super) fn acknowledge(
    database: &Database,
    tx: &Transaction<'_>,
    ws: &WorkspaceId,
    ids: &[&String],
    now_ms: i64,
) -> Result<(), JournalError> {
    let sql = "UPDATE mutation SET acknowledged_ms = ?1
               WHERE workspace = ?2 AND id = ?3 AND acknowledged_ms IS NULL";
    let mut update = tx.prepare(sql).map_err(|source| database.error(source))?;
    for id in ids {
        update
            .execute(params![now_ms, ws.identity(), id])
            .map_err(|source| database.error(source))?;
    }
    Ok(())
}

pub(super) fn of_run(
    database: &Database,
    tx: &Transaction<'_>,
    run: &str,
) -> Result<Vec<Record>, JournalError> {
    let sql = format!("SELECT {COLUMNS} FROM mutation WHERE run = ?1 ORDER BY seq");
    select(database, tx, &sql, run)
}

/// See `Journal::chain`.
pub(super) fn chain(
    database: &Database,
    tx: &Transaction<'_>,
    ws: &WorkspaceId,
) -> Result<Vec<Record>, JournalError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM mutation
         WHERE workspace = ?1 AND seq >= (
             SELECT min(seq) FROM mutation
             WHERE workspace = ?1 AND acknowledged_ms IS NULL AND state <> 'aborted')
         ORDER BY seq"
    );
    let identity = ws.identity();
    let mut records = select(database, tx, &sql, &identity)?;
    for record in &records {
        if record.workspace != identity {
            return Err(damaged(&record.id, "it is of another workspace"));
        }
    }
    // The same inode number, but a folder that was born at another time: those
    // are records of a tree that is gone.
    records.retain(|record| match (&record.born, &ws.born) {
        (Some(theirs), Some(ours)) => theirs == ours,
        _ => true,
    });
    Ok(records)
}

/// The bytes that are kept beside an inline record.
pub(super) fn inline_bytes(
    database: &Database,
    tx: &Transaction<'_>,
    seq: i64,
) -> Result<Option<Vec<u8>>, JournalError> {
    tx.query_row(
        "SELECT pre_bytes FROM mutation WHERE seq = ?1",
        [seq],
        |row| row.get(0),
    )
    .map_err(|source| database.error(source).into())
}

fn select(
    database: &Database,
    tx: &Transaction<'_>,
    sql: &str,
    key: &str,
) -> Result<Vec<Record>, JournalError> {
    let wrap = |source| JournalError::from(database.error(source));
    let mut statement = tx.prepare_cached(sql).map_err(wrap)?;
    let mut rows = statement.query([key]).map_err(wrap)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next().map_err(wrap)? {
        records.push(decode(row)?);
    }
    Ok(records)
}

fn damaged(id: &str, what: &'static str) -> JournalError {
    JournalError::Damaged {
        id: record::bounded(id),
        what,
    }
}

fn decode(row: &Row<'_>) -> Result<Record, JournalError> {
    let id: String = row
        .get("id")
        .map_err(|_| damaged("?", "its id is no text"))?;
    if !record::is_id(&id) {
        return Err(damaged(&id, "its id has a wrong form"));
    }
    let odd = |what| damaged(&id, what);
    let raw = Raw::of(row).map_err(|_| odd("a field is of a wrong type"))?;
    if !record::is_name(&raw.tool) || !record::is_name(&raw.run) {
        return Err(odd("its tool or run has a wrong form"));
    }
    if !record::is_relative(&raw.path) {
        return Err(odd("its path leads elsewhere"));
    }
    if raw
        .temp
        .as_deref()
        .is_some_and(|temp| !record::is_relative(temp))
    {
        return Err(odd("its temporary name leads elsewhere"));
    }
    let digest = |text: Option<String>| {
        text.map(|text| Digest::from_str(&text))
            .transpose()
            .map_err(|_| odd("a digest has a wrong form"))
    };
    let content = match (raw.pre_hash, raw.pre_size.map(u64::try_from)) {
        (Some(hash), Some(Ok(size))) if is_hash(&hash) => Some(Content { hash, size }),
        (None, None) => None,
        _ => return Err(odd("what it says of the old content is odd")),
    };
    let pre_image = match (raw.pre_kind.as_str(), content, raw.pre_note) {
        ("absent", None, None) => PreImage::Absent,
        ("inline", Some(content), None) => PreImage::Inline(content),
        ("file", Some(content), None) => PreImage::File(content),
        ("not_kept", None, Some(why)) => PreImage::NotKept(why),
        _ => return Err(odd("what it says of the old content is odd")),
    };
    let state = match raw.state.as_str() {
        "open" => State::Open,
        "committed" => State::Committed,
        "aborted" => State::Aborted,
        _ => return Err(odd("its state is unknown")),
    };
    let record = Record {
        seq: raw.seq,
        at_ms: raw.at_ms,
        run: raw.run,
        tool: raw.tool,
        workspace: raw.workspace,
        born: raw.born,
        path: raw.path,
        sha_before: digest(raw.sha_before)?,
        sha_after: digest(raw.sha_after)?,
        mode: raw.mode,
        temp: raw.temp,
        pre_image,
        state,
        warning: raw.warning,
        acknowledged_ms: raw.acknowledged_ms,
        id: id.clone(),
    };
    if raw.seal != record.seal() {
        return Err(odd("its seal does not fit"));
    }
    Ok(record)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A row with the types of its columns checked and nothing else.
struct Raw {
    seq: i64,
    at_ms: i64,
    run: String,
    tool: String,
    workspace: String,
    born: Option<String>,
    path: String,
    sha_before: Option<String>,
    sha_after: Option<String>,
    mode: Option<u32>,
    temp: Option<String>,
    pre_kind: String,
    pre_hash: Option<String>,
    pre_size: Option<i64>,
    pre_note: Option<String>,
    seal: [u8; 32],
    state: String,
    warning: Option<String>,
    acknowledged_ms: Option<i64>,
}

impl Raw {
    fn of(row: &Row<'_>) -> rusqlite::Result<Raw> {
        Ok(Raw {
            seq: row.get("seq")?,
            at_ms: row.get("at_ms")?,
            run: row.get("run")?,
            tool: row.get("tool")?,
            workspace: row.get("workspace")?,
            born: row.get("born")?,
            path: row.get("path")?,
            sha_before: row.get("sha_before")?,
            sha_after: row.get("sha_after")?,
            mode: row.get("mode")?,
            temp: row.get("temp")?,
            pre_kind: row.get("pre_kind")?,
            pre_hash: row.get("pre_hash")?,
            pre_size: row.get("pre_size")?,
            pre_note: row.get("pre_note")?,
            seal: row.get("seal")?,
            state: row.get("state")?,
            warning: row.get("warning")?,
            acknowledged_ms: row.get("acknowledged_ms")?,
        })
    }
}
