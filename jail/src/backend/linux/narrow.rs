//! A policy as the narrow form can hold it: without a mount namespace nothing
//! can be shown in the place of something else, so private folders get their
//! host names, and the environment says so.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use std::os::unix::fs::{DirBuilderExt, MetadataExt};

use crate::policy::{Access, Grant, Kind, Origin, Policy};

/// A private temporary folder on the host; removed with everything in it.
#[derive(Debug)]
pub(super) struct PrivateTemp {
    path: PathBuf,
}

impl PrivateTemp {
    fn make() -> io::Result<Self> {
        let template = Path::new("/tmp/delegate-jail-XXXXXX");
        let path = nix::unistd::mkdtemp(template)?;
        // mkdtemp(3) makes it 0700; a folder for $HOME stands beside the files.
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(path.join("home"))?;
        Ok(PrivateTemp { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateTemp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The policy with host names, and the private folder that it leans on.
pub(super) fn narrowed(policy: &Policy) -> io::Result<(Policy, Option<PrivateTemp>)> {
    let mut narrow = policy.clone();
    narrow.scratch = Vec::new();
    narrow.empty_dirs = Vec::new();
    narrow.links = Vec::new();
    let home = value(policy, "HOME").map(PathBuf::from);
    let mut private_home = None;
    for grant in &mut narrow.grants {
        if let Some(source) = grant.source.take() {
            if let Some(home) = &home
                && let Ok(below) = grant.path.strip_prefix(home)
                && let Some(root) = without_suffix(&source, below)
            {
                private_home = Some(root);
            }
            grant.path = source;
        }
    }
    let mut temp = None;
    if !policy.scratch.is_empty() {
        let made = PrivateTemp::make()?;
        let meta = std::fs::metadata(&made.path)?;
        narrow.grants.push(Grant {
            path: made.path.clone(),
            source: None,
            access: Access::all(),
            kind: Kind::Dir,
            dev: meta.dev(),
            ino: meta.ino(),
            origin: Origin {
                source: "narrow form".to_owned(),
                line: 0,
                reason: "a private folder for temporary files".to_owned(),
            },
        });
        set(&mut narrow, "TMPDIR", made.path.clone().into());
        private_home = private_home.or_else(|| Some(made.path.join("home")));
        temp = Some(made);
    }
    if home.is_some()
        && let Some(home) = private_home
    {
        set(&mut narrow, "HOME", home.into());
    }
    Ok((narrow, temp))
}

/// Where a program that the policy shows elsewhere lies on the host.
pub(super) fn host_program(policy: &Policy, program: &Path) -> Option<PathBuf> {
    let grant = policy.grants.iter().find(|grant| grant.path == program)?;
    grant.source.clone()
}

fn without_suffix(path: &Path, suffix: &Path) -> Option<PathBuf> {
    path.ends_with(suffix)
        .then(|| {
            path.ancestors()
                .nth(suffix.components().count())
                .map(Path::to_owned)
        })
        .flatten()
}

fn value<'a>(policy: &'a Policy, name: &str) -> Option<&'a OsString> {
    policy
        .env
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, value)| value)
}

fn set(policy: &mut Policy, name: &str, value: OsString) {
    policy.env.retain(|(other, _)| other != name);
    policy.env.push((name.into(), value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_folders_get_their_host_names_and_go_with_the_cell() {
        let mut policy = Policy::empty();
        policy.scratch = vec!["/tmp".into()];
        policy.env = vec![("HOME".into(), "/home/u".into())];
        policy.grants.push(Grant {
            path: "/home/u/.cache".into(),
            source: Some("/state/homes/7/.cache".into()),
            access: Access::all(),
            kind: Kind::Dir,
            dev: 0,
            ino: 0,
            origin: Origin {
                source: String::new(),
                line: 0,
                reason: String::new(),
            },
        });
        let (narrow, temp) = narrowed(&policy).expect("a folder");
        let temp = temp.expect("a folder");
        assert_eq!(narrow.grants[0].path, Path::new("/state/homes/7/.cache"));
        assert_eq!(
            value(&narrow, "HOME"),
            Some(&OsString::from("/state/homes/7"))
        );
        assert_eq!(
            value(&narrow, "TMPDIR").map(PathBuf::from),
            Some(temp.path.clone())
        );
        assert!(!narrow.judge(Path::new("/tmp/other"), Access::READ).allowed);
        let path = temp.path.clone();
        assert!(path.is_dir());
        drop(temp);
        assert!(!path.exists());
    }
}
