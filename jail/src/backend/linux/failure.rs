//! How a step of opening a cell reports that it failed.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A failed step, as it travels from pid 1 to whoever opened the cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The step in words, path included.
    pub(super) step: String,
    /// The kernel's number; 0 when there is none.
    pub(super) errno: i32,
    /// The path was not what the policy saw.
    pub(super) changed: bool,
}

impl Failure {
    pub(super) fn of(step: &str, path: &Path, error: io::Error) -> Self {
        Failure {
            step: format!("{step} {}", path.display()),
            errno: error.raw_os_error().unwrap_or(0),
            changed: false,
        }
    }

    pub(super) fn plain(step: &str, kind: io::ErrorKind) -> Self {
        Failure {
            step: format!("{step} ({kind})"),
            errno: 0,
            changed: false,
        }
    }

    pub(super) fn changed(path: &Path) -> Self {
        Failure {
            step: path.display().to_string(),
            errno: 0,
            changed: true,
        }
    }
}

/// Names the step at the place where it is taken.
pub(super) trait At<T> {
    fn at(self, step: &str) -> Result<T, Failure>;
    fn at_path(self, step: &str, path: &Path) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: &str) -> Result<T, Failure> {
        self.map_err(|error| {
            let error: io::Error = error.into();
            Failure {
                step: match error.raw_os_error() {
                    Some(_) => step.to_owned(),
                    None => format!("{step} ({error})"),
                },
                errno: error.raw_os_error().unwrap_or(0),
                changed: false,
            }
        })
    }

    fn at_path(self, step: &str, path: &Path) -> Result<T, Failure> {
        self.map_err(|error| Failure::of(step, path, error.into()))
    }
}
