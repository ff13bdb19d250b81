//! Folders and files that belong to one user alone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::StoreError;

/// Creates `path` and its missing parents as 0700, then checks `path`.
pub fn make_folder(path: &Path) -> Result<(), StoreError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| StoreError::Io {
            act: "create",
            path: path.to_owned(),
            source,
        })?;
    check_folder(path)
}

/// Refuses a folder that is a link, somebody else's, or open to others.
pub fn check_folder(path: &Path) -> Result<(), StoreError> {
    let found = fs::symlink_metadata(path).map_err(|source| StoreError::Io {
        act: "look at",
        path: path.to_owned(),
        source,
    })?;
    if !found.is_dir() {
        return Err(unsafe_path(path, "it is not a folder"));
    }
    check_owner(path, &found)
}

/// Opens `path` for reading and writing, creating it as 0600, and refuses
/// links, special files, second names, other owners and open modes.
pub fn open_file(path: &Path) -> Result<File, StoreError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // NONBLOCK: a FIFO put in this place must not hang the open.
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)
        .map_err(|source| match source.raw_os_error() {
            Some(libc::ELOOP) => unsafe_path(path, "it is a symbolic link"),
            _ => StoreError::Io {
                act: "open",
                path: path.to_owned(),
                source,
            },
        })?;
    let found = file.metadata().map_err(|source| StoreError::Io {
        act: "look at",
        path: path.to_owned(),
        source,
    })?;
    check_found(path, &found)?;
    Ok(file)
}

/// As [`open_file`] checks, for a file that need not exist: its device and
/// inode, or `None` when there is no such file.
pub(super) fn check_file(path: &Path) -> Result<Option<(u64, u64)>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(found) => check_found(path, &found).map(|()| Some((found.dev(), found.ino()))),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::Io {
            act: "look at",
            path: path.to_owned(),
            source,
        }),
    }
}

fn check_found(path: &Path, found: &fs::Metadata) -> Result<(), StoreError> {
    if !found.is_file() {
        return Err(unsafe_path(path, "it is not a regular file"));
    }
    if found.nlink() != 1 {
        return Err(unsafe_path(path, "it has a second name (hard link)"));
    }
    check_owner(path, found)
}

fn check_owner(path: &Path, found: &fs::Metadata) -> Result<(), StoreError> {
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(unsafe_path(path, "it belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(unsafe_path(path, "its mode lets other users in"));
    }
    Ok(())
}

fn unsafe_path(path: &Path, what: &'static str) -> StoreError {
    StoreError::Unsafe {
        path: path.to_owned(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_it_makes_is_private_and_passes_its_own_check() {
        let dir = tempfile::tempdir().expect("tempdir");
        let folder = dir.path().join("a/b");
        make_folder(&folder).expect("make");
        assert_eq!(
            fs::metadata(&folder).expect("stat").permissions().mode() & 0o777,
            0o700
        );
        let file = folder.join("f");
        open_file(&file).expect("open");
        assert_eq!(
            fs::metadata(&file).expect("stat").permissions().mode() & 0o777,
            0o600
        );
        open_file(&file).expect("open again");
    }

    #[test]
    fn links_second_names_and_open_modes_are_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        let file = dir.path().join("f");
        open_file(&file).expect("open");

        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("chmod");
        assert_eq!(open_file(&file).expect_err("0644").code(), "state_unsafe");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("chmod");

        symlink(&file, dir.path().join("s")).expect("link");
        let link = open_file(&dir.path().join("s")).expect_err("symlink");
        assert_eq!(link.code(), "state_unsafe");

        fs::hard_link(&file, dir.path().join("h")).expect("hard link");
        assert_eq!(
            open_file(&file).expect_err("nlink 2").code(),
            "state_unsafe"
        );
        fs::remove_file(dir.path().join("h")).expect("remove");
        open_file(&file).expect("the twin: alone again, it opens");

        let folder = dir.path().join("d");
        make_folder(&folder).expect("make");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).expect("chmod");
        assert_eq!(
            check_folder(&folder).expect_err("0750").code(),
            "state_unsafe"
        );
    }
}
