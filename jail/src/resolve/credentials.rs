//! Paths that hold secrets, and whether a grant would open one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Host;
use super::canonical::settle;
use crate::profile::{Place, ProfileError};

const LIST: &str = include_str!("../../../profiles/credentials.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListText {
    home: Vec<PathBuf>,
    system: Vec<PathBuf>,
    environment: Vec<String>,
}

/// The secret paths of this host and user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    paths: BTreeSet<PathBuf>,
    allowed: BTreeSet<PathBuf>,
}

impl Credentials {
    /// Reads the list. `homes` are the spellings of the home directory;
    /// `allowed` the canonical paths that a person named one by one.
    pub(crate) fn of(
        host: &Host,
        homes: &[&Path],
        allowed: BTreeSet<PathBuf>,
    ) -> Result<Credentials, ProfileError> {
        let list: ListText = toml::from_str(LIST).map_err(|error| ProfileError::Syntax {
            at: Place {
                file: "profiles/credentials.toml".to_owned(),
                line: 0,
            },
            what: error.message().to_owned(),
        })?;
        let mut written: Vec<PathBuf> = list.system;
        for home in homes {
            written.extend(list.home.iter().map(|path| home.join(path)));
        }
        for (name, value) in &host.env {
            if list.environment.iter().any(|known| name == known.as_str()) {
                // KUBECONFIG is a list; the others are lists of one.
                written.extend(std::env::split_paths(value).filter(|path| path.is_absolute()));
            }
        }
        let mut paths = BTreeSet::new();
        for path in written {
            paths.insert(settle(&path));
            paths.insert(path);
        }
        Ok(Credentials { paths, allowed })
    }

    /// The secret path that `path` (canonical) is or lies in, unless a person
    /// named exactly `path`.
    pub(crate) fn forbid(&self, path: &Path) -> Option<&Path> {
        if self.allowed.contains(path) {
            return None;
        }
        self.holder(path)
    }

    /// The secret path that `path` is or lies in, whatever was allowed.
    pub(crate) fn holder(&self, path: &Path) -> Option<&Path> {
        path.ancestors()
            .find_map(|ancestor| self.paths.get(ancestor))
            .map(PathBuf::as_path)
    }

    /// The existing secret paths strictly inside `dir`, which a grant of `dir`
    /// must not show, canonical.
    pub(crate) fn inside(&self, dir: &Path) -> Vec<PathBuf> {
        self.paths
            .range(dir.to_path_buf()..)
            .take_while(|path| path.starts_with(dir))
            .filter(|path| *path != dir && !self.is_opened(path))
            .filter(|path| path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink()))
            .cloned()
            .collect()
    }

    /// Whether a person named `path`, or something in it: then it is not shown
    /// empty, since a hidden folder cannot hold a visible one.
    fn is_opened(&self, path: &Path) -> bool {
        self.allowed.iter().any(|allowed| allowed == path)
    }
}
