//! The folder of one run in the state folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::ToolboxError;
use crate::store::{StateDir, make_folder};

/// Folders of runs that were killed are removed when they are older.
pub(super) const STALE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The folder of a run's whole outputs; removed with the run.
#[derive(Debug)]
pub(super) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder of a run, and removes those of runs that are long dead.
    pub(super) fn make(state: &StateDir, run_id: &str) -> Result<RunFolder, ToolboxError> {
        // It becomes a folder name.
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if run_id.is_empty() || run_id.len() > 128 || !run_id.chars().all(plain) {
            return Err(ToolboxError::RunId {
                id: run_id.to_owned(),
            });
        }
        make_folder(state.root())?;
        let path = state.run(run_id);
        if let Some(runs) = path.parent() {
            sweep(runs);
        }
        let folder = RunFolder { path };
        make_folder(&folder.outputs())?;
        Ok(folder)
    }

    /// Where the whole outputs of Bash go.
    pub(super) fn outputs(&self) -> PathBuf {
        self.path.join("output")
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what runs that were killed left behind long ago.
fn sweep(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else {
        return;
    };
    for entry in entries.flatten() {
        let age = entry
            .metadata()
            .and_then(|found| found.modified())
            .map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        if age.is_ok_and(|age| age > STALE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
