//! Glob: files by the shape of their path.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

use super::text::lossy;
use super::walk::{Bounds, Pattern, walk};
use super::{Done, Fail, SEARCH_TIME, Worker, optional, string};
use crate::workspace::What;

/// At most this many paths are shown.
const MAX_PATHS: usize = 500;

impl Worker {
    pub(super) fn glob(&mut self, args: &Map<String, Value>) -> Result<Done, Fail> {
        let written = string(args, "pattern")?;
        let asked = optional(args, "path").unwrap_or(".");
        let place = self.find(asked)?;
        match place.what {
            What::Dir(_) => {}
            What::Missing(_) => return Err(Fail::error(format!("{asked} does not exist"))),
            _ => return Err(Fail::error(format!("{asked} is not a directory"))),
        }
        let pattern = self.pattern(written)?;
        let workspace = self.root.path();
        let base = workspace.join(&place.rel);
        let bounds = Bounds::new(SEARCH_TIME);
        let found: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
        walk(&base, None, &bounds, || {
            |entry: &ignore::DirEntry| {
                let path = entry.path();
                let (Ok(rel), Ok(from_base)) =
                    (path.strip_prefix(workspace), path.strip_prefix(&base))
                else {
                    return;
                };
                if !pattern.matches(from_base, rel) {
                    return;
                }
                // A link is worth showing when Read would read it.
                let is_link = entry.file_type().is_some_and(|kind| kind.is_symlink());
                let leads_to_file = || {
                    rel.to_str()
                        .and_then(|rel| self.root.find(rel).ok())
                        .is_some_and(|place| matches!(place.what, What::File(_)))
                };
                if !is_link || leads_to_file() {
                    found
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(rel.to_owned());
                }
            }
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Sorted before it is cut, so that the same call shows the same files.
        found.sort_unstable();
        Ok(Done::text(listing(&found, written, bounds.is_incomplete())))
    }

    /// A compiled pattern, or why there is none.
    pub(super) fn pattern(&self, written: &str) -> Result<Pattern, Fail> {
        Pattern::new(self.root.path(), written).map_err(|why| match why {
            Some(why) => Fail::error(format!("the glob pattern cannot be used: {why}")),
            None => Fail::Refused(format!(
                "the pattern {written:?} leads out of the workspace"
            )),
        })
    }
}

fn listing(found: &[PathBuf], written: &str, incomplete: bool) -> String {
    let mut text = String::new();
    for path in found.iter().take(MAX_PATHS) {
        text.push_str(&lossy(path.as_os_str().as_bytes()));
        text.push('\n');
    }
    if found.is_empty() {
        let _ = writeln!(text, "No files match {written}");
    }
    if found.len() > MAX_PATHS {
        let _ = writeln!(
            text,
            "[limit reached: the first {MAX_PATHS} of {} files; narrow the pattern]",
            found.len()
        );
    }
    if incomplete {
        text.push_str("[the search was cut short or met unreadable folders: there may be more]\n");
    }
    text.truncate(text.trim_end().len());
    text
}
