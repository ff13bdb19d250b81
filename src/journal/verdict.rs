//! What became of each record, given what is on the disk. Pure.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::record::{Record, State};

/// What the disk says of a recorded change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The file holds what the change meant it to hold.
    Committed,
    /// It does not: the change was cut off, or somebody changed the file since.
    Uncertain,
    /// The change was made, and a later recorded change of the same file
    /// started from exactly what it had left.
    Superseded,
}

impl Status {
    /// The word used in results.
    pub fn name(self) -> &'static str {
        match self {
            Status::Committed => "committed",
            Status::Uncertain => "uncertain",
            Status::Superseded => "superseded",
        }
    }
}

/// What was found at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A regular file with this content.
    Content(Digest),
    /// Nothing.
    Absent,
    /// Something that cannot be compared: a link, a device, an unreadable file.
    Unknown,
}

impl Found {
    fn is(self, wanted: Option<Digest>) -> bool {
        match (self, wanted) {
            (Found::Content(found), Some(wanted)) => found == wanted,
            (Found::Absent, None) => true,
            _ => false,
        }
    }
}

/// Judges records of one workspace, in order; `None` for those that are not
/// pending. Records that were acknowledged still tell of earlier ones.
pub(super) fn judge(records: &[Record], disk: &HashMap<String, Found>) -> Vec<Option<Status>> {
    let mut verdicts = vec![None; records.len()];
    // Walking back from the newest: the next change of each file, and what
    // became of it.
    let mut next: HashMap<&str, (&Record, Status)> = HashMap::new();
    for (at, record) in records.iter().enumerate().rev() {
        if record.state == State::Aborted {
            continue;
        }
        let found = disk.get(&record.path).copied().unwrap_or(Found::Unknown);
        let in_place = found.is(record.sha_after);
        let status = match next.get(record.path.as_str()) {
            // The later one read exactly what this one had left, so this one
            // was made. It is still the last word where the later one never
            // arrived.
            Some((later, theirs)) if later.sha_before == record.sha_after => {
                if *theirs == Status::Uncertain && in_place {
                    Status::Committed
                } else {
                    Status::Superseded
                }
            }
            _ if in_place => Status::Committed,
            _ => Status::Uncertain,
        };
        next.insert(&record.path, (record, status));
        if record.is_pending() {
            verdicts[at] = Some(status);
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::record::{Intent, PreImage};
    use crate::workspace::WorkspaceId;
    use proptest::prelude::*;

    fn change(path: &str, before: &str, after: &str) -> Record {
        let digest = |text: &str| (text != "-").then(|| Digest::of(text.as_bytes()));
        let intent = Intent {
            run_id: "r".to_owned(),
            tool: "Write".to_owned(),
            workspace: WorkspaceId {
                dev: 1,
                ino: 2,
                born: None,
            },
            path: path.to_owned(),
            sha_before: digest(before),
            sha_after: digest(after),
            pre_image: None,
            mode: None,
            temp: None,
        };
        Record::new(String::new(), 0, &intent, PreImage::Absent)
    }

    fn words(records: &[Record], disk: &[(&str, &str)]) -> Vec<&'static str> {
        let disk = disk
            .iter()
            .map(|(path, content)| {
                let found = match *content {
                    "-" => Found::Absent,
                    "?" => Found::Unknown,
                    text => Found::Content(Digest::of(text.as_bytes())),
                };
                ((*path).to_owned(), found)
            })
            .collect();
        judge(records, &disk)
            .into_iter()
            .map(|verdict| verdict.map_or("none", Status::name))
            .collect()
    }

    #[test]
    fn one_change_is_committed_exactly_when_its_content_is_there() {
        let made = [change("f", "-", "a")];
        assert_eq!(words(&made, &[("f", "a")]), ["committed"]);
        assert_eq!(words(&made, &[("f", "x")]), ["uncertain"]);
        assert_eq!(words(&made, &[("f", "-")]), ["uncertain"]);
        assert_eq!(words(&made, &[("f", "?")]), ["uncertain"]);
        assert_eq!(words(&made, &[]), ["uncertain"]);
        let removed = [change("f", "a", "-")];
        assert_eq!(words(&removed, &[("f", "-")]), ["committed"]);
        assert_eq!(words(&removed, &[("f", "a")]), ["uncertain"]);
    }

    #[test]
    fn a_chain_supersedes_and_a_gap_does_not() {
        let chain = [
            change("f", "-", "a"),
            change("g", "-", "x"),
            change("f", "a", "b"),
            change("f", "b", "c"),
        ];
        assert_eq!(
            words(&chain, &[("f", "c"), ("g", "x")]),
            ["superseded", "committed", "superseded", "committed"]
        );
        // Somebody changed the file between the first and the second.
        let gap = [change("f", "-", "a"), change("f", "z", "b")];
        assert_eq!(words(&gap, &[("f", "b")]), ["uncertain", "committed"]);
        // There and back again: the older ones are history.
        let back = [
            change("f", "a", "b"),
            change("f", "b", "a"),
            change("f", "a", "b"),
        ];
        assert_eq!(
            words(&back, &[("f", "b")]),
            ["superseded", "superseded", "committed"]
        );
    }

    #[test]
    fn a_change_that_was_cut_off_leaves_the_one_before_it_committed() {
        let cut = [change("f", "-", "a"), change("f", "a", "b")];
        assert_eq!(words(&cut, &[("f", "a")]), ["committed", "uncertain"]);
        // Changed by somebody else afterwards: the first was made all the same.
        assert_eq!(words(&cut, &[("f", "z")]), ["superseded", "uncertain"]);
    }

    #[test]
    fn settled_ones_are_silent_but_count_and_aborted_ones_do_not_count() {
        let mut chain = [change("f", "-", "a"), change("f", "a", "b")];
        chain[1].acknowledged_ms = Some(1);
        assert_eq!(words(&chain, &[("f", "b")]), ["superseded", "none"]);
        chain[1].acknowledged_ms = None;
        chain[1].state = State::Aborted;
        assert_eq!(words(&chain, &[("f", "a")]), ["committed", "none"]);
        assert_eq!(words(&chain, &[("f", "b")]), ["uncertain", "none"]);
    }

    proptest! {
        /// A history in which every change was made and nobody interfered:
        /// the last of each file is committed, all before it superseded.
        #[test]
        fn an_undisturbed_history_has_no_uncertain_record(
            steps in proptest::collection::vec((0..3usize, 0..4usize), 1..40)
        ) {
            let (paths, contents) = (["f", "g", "h"], ["-", "a", "b", "c"]);
            let mut now = ["-"; 3];
            let mut records = Vec::new();
            for (file, content) in steps {
                let (before, after) = (now[file], contents[content]);
                if before == after {
                    continue;
                }
                records.push(change(paths[file], before, after));
                now[file] = after;
            }
            let disk: Vec<(&str, &str)> = paths.into_iter().zip(now).collect();
            let verdicts = words(&records, &disk);
            for (at, record) in records.iter().enumerate() {
                let last = records[at + 1..].iter().all(|later| later.path != record.path);
                prop_assert_eq!(verdicts[at], if last { "committed" } else { "superseded" });
            }
        }
    }
}
