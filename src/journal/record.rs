//! One record, as plain data. Pure.

use super::{Digest, JournalError};
use crate::workspace::WorkspaceId;

/// Longest path, run id and warning that are recorded, in bytes.
const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 256;
const MAX_WARNING: usize = 4096;

/// A change that is about to be made.
#[derive(Clone, Debug)]
pub struct Intent {
    /// The run that wants it.
    pub run_id: String,
    /// `Write`, `Edit` or `NotebookEdit`.
    pub tool: String,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Canonical path relative to the workspace.
    pub path: String,
    /// Digest of the present content; `None` where there is no file.
    pub sha_before: Option<Digest>,
    /// Digest of the new content; `None` for a removal.
    pub sha_after: Option<Digest>,
    /// The present content; `None` where there is no file.
    pub pre_image: Option<Vec<u8>>,
    /// Permission bits of the file before; `None` where there is no file.
    pub mode: Option<u32>,
    /// Name, relative to the workspace, under which the new bytes may lie
    /// until they are put in place.
    pub temp: Option<String>,
}

/// What is kept of the content before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreImage {
    /// There was no file.
    Absent,
    /// The bytes, beside the record in the database.
    Inline(Content),
    /// A file of the blob store.
    File(Content),
    /// Not kept.
    NotKept(String),
}

/// Content that is kept, by what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// BLAKE3 in hex; the name of the blob.
    pub hash: String,
    /// Length in bytes.
    pub size: u64,
}

/// How far a change got, as far as was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Intended; what became of it only the disk knows.
    Open,
    /// The tool saw the new bytes in place.
    Committed,
    /// The tool left the file as it was.
    Aborted,
}

impl State {
    /// As stored.
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Committed => "committed",
            State::Aborted => "aborted",
        }
    }
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Place in the order of all changes; 0 before it is stored.
    pub seq: i64,
    /// 32 lowercase hex digits.
    pub id: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The run that made it.
    pub run: String,
    /// The tool.
    pub tool: String,
    /// Identity of the workspace, `filesystem:<dev>:<ino>`.
    pub workspace: String,
    /// Birth time of the workspace folder, where known.
    pub born: Option<String>,
    /// Path relative to the workspace.
    pub path: String,
    /// Content before.
    pub sha_before: Option<Digest>,
    /// Content after.
    pub sha_after: Option<Digest>,
    /// Permission bits before.
    pub mode: Option<u32>,
    /// Temporary name.
    pub temp: Option<String>,
    /// What is kept of the content before.
    pub pre_image: PreImage,
    /// How far it got.
    pub state: State,
    /// What went wrong.
    pub warning: Option<String>,
    /// When somebody acknowledged it.
    pub acknowledged_ms: Option<i64>,
}

impl Record {
    pub(super) fn new(id: String, at_ms: i64, intent: &Intent, pre_image: PreImage) -> Self {
        Record {
            seq: 0,
            id,
            at_ms,
            run: intent.run_id.clone(),
            tool: intent.tool.clone(),
            workspace: intent.workspace.identity(),
            born: intent.workspace.born.clone(),
            path: intent.path.clone(),
            sha_before: intent.sha_before,
            sha_after: intent.sha_after,
            mode: intent.mode,
            temp: intent.temp.clone(),
            pre_image,
            state: State::Open,
            warning: None,
            acknowledged_ms: None,
        }
    }

    /// Whether somebody still has to acknowledge it.
    pub fn is_pending(&self) -> bool {
        self.acknowledged_ms.is_none() && self.state != State::Aborted
    }

    /// A digest of everything that never changes after the record was written.
    /// A record whose seal does not fit was written by something else.
    pub(super) fn seal(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("delegate journal record 1");
        // Each field with its length, so that no two records read the same.
        let mut field = |bytes: Option<&[u8]>| match bytes {
            None => {
                hasher.update(&[0]);
            }
            Some(bytes) => {
                hasher.update(&[1]);
                hasher.update(&(bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
        };
        let before = self.sha_before.map(|digest| digest.to_string());
        let after = self.sha_after.map(|digest| digest.to_string());
        field(Some(self.id.as_bytes()));
        field(Some(&self.at_ms.to_le_bytes()));
        field(Some(self.run.as_bytes()));
        field(Some(self.tool.as_bytes()));
        field(Some(self.workspace.as_bytes()));
        field(self.born.as_deref().map(str::as_bytes));
        field(Some(self.path.as_bytes()));
        field(before.as_deref().map(str::as_bytes));
        field(after.as_deref().map(str::as_bytes));
        field(self.mode.map(u32::to_le_bytes).as_ref().map(|m| &m[..]));
        field(self.temp.as_deref().map(str::as_bytes));
        match &self.pre_image {
            PreImage::Absent => field(Some(b"absent")),
            PreImage::Inline(content) | PreImage::File(content) => {
                let inline = matches!(self.pre_image, PreImage::Inline(_));
                field(Some(if inline { b"inline" } else { b"file" }));
                field(Some(content.hash.as_bytes()));
                field(Some(&content.size.to_le_bytes()));
            }
            PreImage::NotKept(why) => {
                field(Some(b"not_kept"));
                field(Some(why.as_bytes()));
            }
        }
        hasher.finalize().into()
    }
}

/// Refuses an intent that could not be found again, or that contradicts itself.
pub(super) fn check(intent: &Intent) -> Result<(), JournalError> {
    let refuse = |what| Err(JournalError::Intent { what });
    if !is_name(&intent.tool) || !is_name(&intent.run_id) {
        return refuse("the tool or run has no proper name");
    }
    if !is_relative(&intent.path) {
        return refuse("the path is not a plain relative path");
    }
    if intent
        .temp
        .as_deref()
        .is_some_and(|temp| !is_relative(temp))
    {
        return refuse("the temporary name is not a plain relative path");
    }
    if intent.sha_before.is_none() && intent.sha_after.is_none() {
        return refuse("there is no file before and none after");
    }
    match (&intent.pre_image, intent.sha_before) {
        (None, None) => Ok(()),
        (Some(bytes), Some(digest)) if Digest::of(bytes) == digest => Ok(()),
        (Some(_), Some(_)) => refuse("the content before does not have its digest"),
        _ => refuse("content and digest before must come together"),
    }
}

/// Whether `text` has the form of a transaction id.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == 32
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `text` is short, not empty and printable ASCII.
pub(super) fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether `path` is relative, without `.`, `..`, empty components or NUL.
pub(super) fn is_relative(path: &str) -> bool {
    (1..=MAX_PATH).contains(&path.len())
        && !path.contains('\0')
        && path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..")
}

/// The beginning of `text`, at most as long as a warning may be.
pub(super) fn bounded(text: &str) -> String {
    let mut end = text.len().min(MAX_WARNING);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn intent() -> Intent {
        Intent {
            run_id: "01J".to_owned(),
            tool: "Write".to_owned(),
            workspace: WorkspaceId {
                dev: 1,
                ino: 2,
                born: None,
            },
            path: "a/b.txt".to_owned(),
            sha_before: Some(Digest::of(b"old")),
            sha_after: Some(Digest::of(b"new")),
            pre_image: Some(b"old".to_vec()),
            mode: Some(0o644),
            temp: Some("a/.delegate-1.tmp".to_owned()),
        }
    }

    #[test]
    fn an_intent_that_leads_out_or_contradicts_itself_is_refused() {
        check(&intent()).expect("the twin: a plain one passes");
        type Break = fn(&mut Intent);
        let breaks: [(&str, Break); 10] = [
            ("absolute", |i| i.path = "/etc/passwd".to_owned()),
            ("climbing", |i| i.path = "a/../../b".to_owned()),
            ("empty", |i| i.path = String::new()),
            ("nul", |i| i.path = "a\0".to_owned()),
            ("slash at the end", |i| i.path = "a/".to_owned()),
            ("temp climbing", |i| i.temp = Some("../x".to_owned())),
            ("no name", |i| i.tool = " ".to_owned()),
            ("other bytes", |i| i.pre_image = Some(b"odd".to_vec())),
            ("no bytes", |i| i.pre_image = None),
            ("nothing at all", |i| {
                i.pre_image = None;
                i.sha_before = None;
                i.sha_after = None;
            }),
        ];
        for (name, break_it) in breaks {
            let mut broken = intent();
            break_it(&mut broken);
            assert!(check(&broken).is_err(), "{name}");
        }
    }

    #[test]
    fn ids_have_one_form() {
        assert!(is_id(&"0a".repeat(16)));
        for bad in [
            "",
            "zz",
            &"0A".repeat(16),
            &"0a".repeat(17),
            &format!("{} ", "0".repeat(31)),
        ] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_field_is_under_the_seal(at in any::<i64>(), path in "[a-z]{1,8}", run in "[a-z]{1,8}") {
            let id = "0".repeat(32);
            let old = PreImage::NotKept("too large".to_owned());
            let one = Record::new(id.clone(), 1, &intent(), old.clone());
            let mut other = one.clone();
            other.at_ms = at;
            other.path.clone_from(&path);
            other.run.clone_from(&run);
            let same = at == 1 && path == one.path && run == one.run;
            prop_assert_eq!(one.seal() == other.seal(), same);
            // What may change later is not under it.
            let mut closed = one.clone();
            closed.state = State::Committed;
            closed.acknowledged_ms = Some(2);
            prop_assert_eq!(one.seal(), closed.seal());
        }

        #[test]
        fn a_bounded_text_is_a_beginning_and_short(text in ".{0,3000}") {
            let cut = bounded(&text.repeat(3));
            prop_assert!(cut.len() <= MAX_WARNING && text.repeat(3).starts_with(&cut));
        }
    }
}
