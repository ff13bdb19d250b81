//! The home directory inside: the real path, empty and read-only, with private
//! writable folders in it.

use std::path::{Path, PathBuf};

use super::canonical::walk;
use super::draft::Draft;
use super::private::PrivateHome;
use super::{Host, Request};
use crate::policy::{Access, Grant, Kind, Origin};
use crate::profile::{Line, ProfileError, Variables};

/// What stands in for a home directory of `/`, which containers give to users
/// without an entry in passwd: there is nothing in it to show.
const STAND_IN: &str = "/home/user";

/// The home directory as seen inside, and the private home behind it.
pub(crate) struct Home {
    /// Canonical; the `empty_dirs` entry.
    pub inside: PathBuf,
    /// As the user spells it; the value of `HOME`.
    pub spelled: PathBuf,
    private: Option<PrivateHome>,
}

impl Home {
    pub(crate) fn of(request: &Request, host: &Host) -> Result<Home, ProfileError> {
        let spelled = if host.home.is_absolute() && host.home.parent().is_some() {
            host.home.clone()
        } else {
            PathBuf::from(STAND_IN)
        };
        let inside = walk(&spelled).map_or_else(|_| spelled.clone(), |found| found.path);
        let private = request
            .private_home
            .as_deref()
            .map(PrivateHome::open)
            .transpose()?;
        Ok(Home {
            inside,
            spelled,
            private,
        })
    }

    /// Every path that is the home directory, to be refused as a grant.
    pub(crate) fn spellings(&self, host: &Host) -> Vec<PathBuf> {
        let mut all = vec![self.inside.clone(), self.spelled.clone()];
        if host.home.is_absolute() && host.home.parent().is_some() {
            all.push(host.home.clone());
        }
        all.dedup();
        all
    }

    /// Adds the private folders that `lines` name: relative to the home
    /// directory, or absolute through a variable.
    pub(crate) fn add(
        &self,
        lines: &[Line],
        vars: &Variables,
        draft: &mut Draft<'_>,
    ) -> Result<(), ProfileError> {
        for line in lines {
            let text = PathBuf::from(vars.expand(line)?);
            let path = if text.is_absolute() {
                vars.path(line)?
            } else {
                vars.path(&Line {
                    text: format!("${{HOME}}/{}", line.text),
                    ..line.clone()
                })?
            };
            let relative = path
                .strip_prefix(&self.spelled)
                .or_else(|_| path.strip_prefix(&self.inside));
            match relative {
                Ok(relative) if relative.as_os_str().is_empty() => {
                    return Err(ProfileError::Path {
                        at: line.at.clone(),
                        path,
                        what: "is the home directory itself, which stays read-only; name a folder in it",
                    });
                }
                Ok(relative) => self.folder(relative, line, draft)?,
                Err(_) => draft.scratch(&path),
            }
        }
        Ok(())
    }

    fn folder(
        &self,
        relative: &Path,
        line: &Line,
        draft: &mut Draft<'_>,
    ) -> Result<(), ProfileError> {
        let path = self.inside.join(relative);
        if draft.grants.contains_key(&path) {
            return Ok(());
        }
        draft.private.insert(path.clone());
        let Some(private) = &self.private else {
            draft.scratch.insert(path);
            return Ok(());
        };
        let made = private.folder(relative)?;
        let grant = Grant {
            path: path.clone(),
            source: Some(made.path),
            access: Access::all(),
            kind: Kind::Dir,
            dev: made.dev,
            ino: made.ino,
            origin: Origin {
                source: line.source.clone(),
                line: line.at.line,
                reason: "a private folder in the place of the real one".to_owned(),
            },
        };
        draft.grants.insert(path, grant);
        Ok(())
    }

    /// Makes, in the private home, what real paths are mounted on.
    pub(crate) fn mount_points(&self, draft: &Draft<'_>) -> Result<(), ProfileError> {
        let Some(private) = &self.private else {
            return Ok(());
        };
        for grant in draft.grants.values() {
            let nested = grant.path.ancestors().skip(1).any(|dir| {
                draft.private.contains(dir)
                    && draft.grants.get(dir).is_some_and(|g| g.source.is_some())
            });
            if nested && let Ok(relative) = grant.path.strip_prefix(&self.inside) {
                private.mount_point(relative, grant.kind)?;
            }
        }
        Ok(())
    }
}
