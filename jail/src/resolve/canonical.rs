//! Following a path to the object it names, with every symbolic link seen on
//! the way.
//!
//! The kernel is asked for one component at a time. A private root needs the
//! links as well as the objects, or `/bin/sh` would not exist in it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::policy::{Kind, Link};

/// Links followed before a path counts as a loop, as in the kernel.
const MOST_LINKS: usize = 40;

/// A link met on the way, and what was still to be walked after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub link: Link,
    pub rest: PathBuf,
}

/// An existing object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub path: PathBuf,
    pub hops: Vec<Hop>,
    pub kind: Kind,
    pub dev: u64,
    pub ino: u64,
}

/// Follows `path` (absolute).
pub(crate) fn walk(path: &Path) -> io::Result<Found> {
    let mut pending: VecDeque<OsString> = parts(path).collect();
    let mut current = PathBuf::from("/");
    let mut meta = current.symlink_metadata()?;
    let mut hops = Vec::new();
    while let Some(part) = pending.pop_front() {
        if !meta.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        if part == ".." {
            // `current` holds no link, so its parent is its real parent.
            current.pop();
            meta = current.symlink_metadata()?;
            continue;
        }
        let next = current.join(&part);
        meta = next.symlink_metadata()?;
        if !meta.is_symlink() {
            current = next;
            continue;
        }
        if hops.len() == MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = next.read_link()?;
        hops.push(Hop {
            link: Link {
                path: next,
                target: target.clone(),
            },
            rest: pending.iter().collect(),
        });
        if target.is_absolute() {
            current = PathBuf::from("/");
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            pending.push_front(part);
        }
        meta = current.symlink_metadata()?;
    }
    Ok(Found {
        path: current,
        hops,
        kind: if meta.is_dir() { Kind::Dir } else { Kind::File },
        dev: meta.dev(),
        ino: meta.ino(),
    })
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// The deepest part of `path` that exists, canonical, and what is left of it.
/// Symbolic links that point nowhere count as missing.
pub(crate) fn nearest(path: &Path) -> (PathBuf, PathBuf) {
    let mut rest = PathBuf::new();
    for ancestor in path.ancestors() {
        if let Ok(found) = walk(ancestor) {
            return (found.path, rest);
        }
        if let Some(name) = ancestor.file_name() {
            rest = if rest.as_os_str().is_empty() {
                PathBuf::from(name)
            } else {
                Path::new(name).join(&rest)
            };
        }
    }
    (PathBuf::from("/"), rest)
}

/// `path` with its existing part canonical; for paths that need not exist.
pub(crate) fn settle(path: &Path) -> PathBuf {
    let (base, rest) = nearest(path);
    if rest.as_os_str().is_empty() {
        base
    } else {
        base.join(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_seen_and_the_object_is_the_kernels() {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().canonicalize().expect("canonical");
        fs::create_dir_all(base.join("usr/bin")).expect("mkdir");
        fs::write(base.join("usr/bin/python3.11"), "").expect("write");
        symlink("usr/bin", base.join("bin")).expect("link");
        symlink("python3.11", base.join("usr/bin/python3")).expect("link");
        symlink("../bin/python3", base.join("usr/py")).expect("link");

        let found = walk(&base.join("usr/py")).expect("walk");
        assert_eq!(found.path, base.join("usr/bin/python3.11"));
        assert_eq!(found.kind, Kind::File);
        let links: Vec<_> = found.hops.iter().map(|hop| hop.link.path.clone()).collect();
        assert_eq!(
            links,
            [
                base.join("usr/py"),
                base.join("bin"),
                base.join("usr/bin/python3")
            ]
        );
        assert_eq!(found.hops[1].rest, Path::new("python3"));
        let meta = fs::metadata(base.join("usr/py")).expect("stat");
        assert_eq!((found.dev, found.ino), (meta.dev(), meta.ino()));
    }

    #[test]
    fn a_loop_ends_and_a_file_has_nothing_below() {
        let dir = tempfile::tempdir().expect("tempdir");
        symlink("b", dir.path().join("a")).expect("link");
        symlink("a", dir.path().join("b")).expect("link");
        fs::write(dir.path().join("file"), "").expect("write");
        let error = walk(&dir.path().join("a")).expect_err("loop");
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        let error = walk(&dir.path().join("file/x")).expect_err("not a folder");
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn a_missing_path_settles_below_what_exists() {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().canonicalize().expect("canonical");
        fs::create_dir(base.join("real")).expect("mkdir");
        symlink("real", base.join("link")).expect("link");
        assert_eq!(settle(&base.join("link/x/y")), base.join("real/x/y"));
        assert_eq!(settle(&base.join("link")), base.join("real"));
        symlink("nowhere", base.join("dangling")).expect("link");
        assert_eq!(
            nearest(&base.join("dangling")),
            (base.clone(), PathBuf::from("dangling"))
        );
    }

    proptest::proptest! {
        /// Whatever the tree, our walk agrees with the kernel's.
        #[test]
        fn the_walk_agrees_with_the_kernel(
            links in proptest::collection::vec((0usize..6, 0usize..6, proptest::bool::ANY, proptest::bool::ANY), 0..8),
            question in proptest::collection::vec(0usize..8, 1..6),
        ) {
            let dir = tempfile::tempdir().expect("tempdir");
            let base = dir.path().canonicalize().expect("canonical");
            let names = ["a", "b", "c", "a/d", "b/e", "c/f"];
            for name in &names[..3] {
                fs::create_dir(base.join(name)).expect("mkdir");
            }
            for (from, to, absolute, up) in links {
                let target = match (absolute, up) {
                    (true, _) => base.join(names[to]),
                    (false, true) => Path::new("..").join(names[to]),
                    (false, false) => PathBuf::from(names[to]),
                };
                let _ = symlink(target, base.join(names[from]).join("l"));
                let _ = symlink(names[to], base.join(names[from]));
            }
            let words = ["a", "b", "c", "d", "e", "f", "l", ".."];
            let mut path = base;
            path.extend(question.into_iter().map(|word| words[word]));
            match (walk(&path), path.canonicalize()) {
                (Ok(ours), Ok(theirs)) => proptest::prop_assert_eq!(ours.path, theirs),
                (Err(_), Err(_)) => {}
                (ours, theirs) => proptest::prop_assert!(false, "{:?} {:?}", ours, theirs),
            }
        }
    }
}
