//! `${NAME}` in paths and values.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, PathBuf};

use super::error::{Place, ProfileError};
use super::text::Line;

/// The variables that are known, with their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables(BTreeMap<String, OsString>);

impl Variables {
    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Replaces each `${NAME}`.
    pub(crate) fn expand(&self, line: &Line) -> Result<OsString, ProfileError> {
        let mut out = OsString::new();
        let mut rest = line.text.as_str();
        while let Some(start) = rest.find("${") {
            let (before, after) = rest.split_at(start);
            out.push(before);
            let name_and_rest = &after[2..];
            let Some(end) = name_and_rest.find('}') else {
                return Err(ProfileError::Syntax {
                    at: line.at.clone(),
                    what: format!("`${{` without `}}` in {:?}", line.text),
                });
            };
            let name = &name_and_rest[..end];
            out.push(self.value(name, &line.at)?);
            rest = &name_and_rest[end + 1..];
        }
        out.push(rest);
        Ok(out)
    }

    /// Expands a line that is a path: absolute, and without `..`, which would
    /// mean one thing to a reader and another to a kernel that follows links.
    pub(crate) fn path(&self, line: &Line) -> Result<PathBuf, ProfileError> {
        let path = PathBuf::from(self.expand(line)?);
        let what = if path.as_os_str().as_encoded_bytes().contains(&0) {
            Some("holds a NUL byte")
        } else if !path.is_absolute() {
            Some("is not absolute; begin with / or a variable such as ${HOME}")
        } else if path.components().any(|part| part == Component::ParentDir) {
            Some("holds `..`; write the path that is meant")
        } else {
            None
        };
        match what {
            Some(what) => Err(ProfileError::Path {
                at: line.at.clone(),
                path,
                what,
            }),
            None => Ok(path),
        }
    }

    fn value(&self, name: &str, at: &Place) -> Result<&OsStr, ProfileError> {
        self.0
            .get(name)
            .map(OsString::as_os_str)
            .ok_or_else(|| ProfileError::Variable {
                at: at.clone(),
                name: name.to_owned(),
                known: self
                    .0
                    .keys()
                    .map(|known| format!("${{{known}}}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}
