//! Why the journal refuses.

use std::io;
use std::path::PathBuf;

use crate::store::StoreError;

/// Why the journal refuses. While it does, no file tool changes anything and
/// no run that needs it starts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The state folder or the database cannot be used.
    #[error("the journal cannot be used: {0}")]
    Store(#[from] StoreError),
    /// A record is not what was written.
    #[error(
        "journal record {id} cannot be trusted ({what}); nothing is delegated until a person has looked at it"
    )]
    Damaged {
        /// Its id as stored, cut short.
        id: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The kept old content of a record is gone or was changed.
    #[error("the content before change {id} was not kept intact: {what}")]
    PreImage {
        /// The record.
        id: String,
        /// What is wrong.
        what: String,
    },
    /// Old content could not be put aside.
    #[error("cannot keep the content before the change in {}: {source}", .path.display())]
    Keep {
        /// The blob.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// An intent that cannot be recorded.
    #[error("the change cannot be recorded: {what}")]
    Intent {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The workspace is no longer the folder that the records are about.
    #[error("the workspace {} is no longer the folder that the journal is about", .root.display())]
    OtherWorkspace {
        /// Where it was looked for.
        root: PathBuf,
    },
    /// An id of a wrong form in an acknowledgement.
    #[error("{id:?} is no transaction id (32 lowercase hex digits); nothing was acknowledged")]
    BadId {
        /// As given, cut short.
        id: String,
    },
    /// Too many ids in one acknowledgement.
    #[error("{given} ids in one call, at most {limit}; nothing was acknowledged")]
    TooManyIds {
        /// How many came.
        given: usize,
        /// How many may come.
        limit: usize,
    },
    /// No such record.
    #[error("no open journal record {id}")]
    UnknownId {
        /// As given.
        id: String,
    },
}

impl JournalError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            JournalError::Store(_) => "journal_unavailable",
            JournalError::Damaged { .. } => "journal_damaged",
            JournalError::PreImage { .. } => "journal_pre_image",
            JournalError::Keep { .. } => "journal_keep",
            JournalError::Intent { .. } => "journal_intent",
            JournalError::OtherWorkspace { .. } => "journal_other_workspace",
            JournalError::BadId { .. } => "journal_bad_id",
            JournalError::TooManyIds { .. } => "journal_too_many_ids",
            JournalError::UnknownId { .. } => "journal_unknown_id",
        }
    }
}
