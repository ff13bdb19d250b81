//! The only part of the room that touches the disk: finding the two files,
//! seeing that nobody else could have written or read them, reading them.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::ConfigError;

/// Larger than any honest configuration.
const LIMIT: u64 = 1 << 20;

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}

/// Everything a configuration is made of; a test makes one by hand.
#[derive(Clone)]
pub struct Sources {
    /// `--set` and the flags that stand for settings: name, value, how the
    /// person wrote it (`--set`, `--model`).
    pub flags: Vec<(String, String, String)>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// `config.toml`, when there is one.
    pub own: Option<FileText>,
    /// The legacy file; an error of it concerns the `deepseek` tools only.
    pub legacy: Result<Option<FileText>, ConfigError>,
    /// The home folder, for `~`.
    pub home: PathBuf,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither values of variables nor file texts: both may hold keys.
        f.debug_struct("Sources")
            .field("flags", &self.flags.len())
            .field("env", &self.env.len())
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

impl Sources {
    /// Reads the two files below `home`.
    pub fn read(home: &Path, env: BTreeMap<String, String>) -> Result<Sources, ConfigError> {
        let base = env
            .get("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .unwrap_or_else(|| home.join(".config"));
        Ok(Sources {
            flags: Vec::new(),
            own: read_own(&base.join("delegate/config.toml"))?,
            legacy: read_legacy(&home.join(".deepseek-mcp")),
            env,
            home: home.to_owned(),
        })
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> ConfigError {
    ConfigError::Unreadable {
        path: path.to_owned(),
        cause: error.to_string(),
    }
}

fn unsafe_file(path: &Path, cause: &str, remedy: String) -> ConfigError {
    ConfigError::Unsafe {
        path: path.to_owned(),
        cause: cause.to_owned(),
        remedy,
    }
}

fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Reads an open file whose metadata was checked, with its size bounded while
/// reading: a size that was looked up may no longer be true.
fn read_text(file: File, path: &Path) -> Result<FileText, ConfigError> {
    let mut bytes = Vec::new();
    file.take(LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > LIMIT {
        return Err(ConfigError::Malformed {
            path: path.to_owned(),
            cause: "is larger than 1 MiB".to_owned(),
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| ConfigError::Malformed {
        path: path.to_owned(),
        cause: "is not UTF-8".to_owned(),
    })?;
    Ok(FileText {
        path: path.to_owned(),
        text,
    })
}

/// Our own file holds no secret and may be a link into a dotfiles folder; but
/// whoever can write it decides where tasks and keys go.
fn read_own(path: &Path) -> Result<Option<FileText>, ConfigError> {
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let facts = file.metadata().map_err(|error| unreadable(path, &error))?;
    regular(path, &facts)?;
    if facts.uid() != our_uid() && facts.uid() != 0 {
        return Err(unsafe_file(
            path,
            "belongs to another user",
            "Make it yours, or remove it.".to_owned(),
        ));
    }
    if facts.mode() & 0o022 != 0 {
        return Err(unsafe_file(
            path,
            "can be written by other users",
            format!("Run: chmod go-w {}", path.display()),
        ));
    }
    read_text(file, path).map(Some)
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
    )
}

fn regular(path: &Path, facts: &Metadata) -> Result<(), ConfigError> {
    if facts.is_file() {
        return Ok(());
    }
    Err(unsafe_file(
        path,
        "is not a regular file",
        "Put a plain file there.".to_owned(),
    ))
}

/// The legacy file holds a key: folder and file must be real, ours, and closed
/// to everybody else.
fn read_legacy(dir: &Path) -> Result<Option<FileText>, ConfigError> {
    let path = dir.join("config.json");
    let folder = match dir.symlink_metadata() {
        Ok(facts) => facts,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(unreadable(dir, &error)),
    };
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(&path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // A dangling link is not an absent file.
            return match path.symlink_metadata() {
                Err(gone) if is_absent(&gone) => Ok(None),
                _ => Err(unreadable(&path, &error)),
            };
        }
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(unsafe_file(
                &path,
                "is a symbolic link",
                "Put a plain file there.".to_owned(),
            ));
        }
        Err(error) => return Err(unreadable(&path, &error)),
    };
    if !folder.is_dir() {
        return Err(unsafe_file(
            dir,
            "is not a real folder",
            "Replace it by a folder of your own.".to_owned(),
        ));
    }
    let facts = file.metadata().map_err(|error| unreadable(&path, &error))?;
    regular(&path, &facts)?;
    for (what, facts, mode) in [(dir, &folder, "700"), (&path, &facts, "600")] {
        if facts.uid() != our_uid() {
            return Err(unsafe_file(
                what,
                "belongs to another user",
                "Make it yours, or remove it.".to_owned(),
            ));
        }
        if facts.mode() & 0o077 != 0 {
            return Err(unsafe_file(
                what,
                "is open to other users",
                format!("Run: chmod {mode} {}", what.display()),
            ));
        }
    }
    read_text(file, &path).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path, bits: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("chmod");
    }

    fn home() -> tempfile::TempDir {
        tempfile::tempdir().expect("scratch home")
    }

    fn legacy(home: &Path, text: &str) -> PathBuf {
        let dir = home.join(".deepseek-mcp");
        fs::create_dir_all(&dir).expect("mkdir");
        mode(&dir, 0o700);
        let path = dir.join("config.json");
        fs::write(&path, text).expect("write");
        mode(&path, 0o600);
        path
    }

    fn read(home: &Path) -> Sources {
        Sources::read(home, BTreeMap::new()).expect("own file is fine")
    }

    #[test]
    fn an_empty_home_gives_no_file_and_no_error() {
        let home = home();
        let sources = read(home.path());
        assert_eq!((sources.own, sources.legacy), (None, Ok(None)));
    }

    #[test]
    fn the_legacy_file_is_read_only_when_closed_to_others() {
        let home = home();
        let path = legacy(home.path(), "{}");
        let text = read(home.path()).legacy.expect("closed").expect("there");
        assert_eq!(text.text, "{}");
        for bits in [0o644, 0o640, 0o602] {
            mode(&path, bits);
            let error = read(home.path()).legacy.expect_err("open");
            assert_eq!(error.code(), "config_unsafe_file");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        mode(&path, 0o600);
        mode(path.parent().expect("folder"), 0o755);
        assert_eq!(
            read(home.path()).legacy.expect_err("open folder").code(),
            "config_unsafe_file"
        );
    }

    #[test]
    fn links_and_oversize_are_refused() {
        let home = home();
        let path = legacy(home.path(), "{}");
        let real = home.path().join("real.json");
        fs::rename(&path, &real).expect("move");
        symlink(&real, &path).expect("link");
        assert_eq!(
            read(home.path()).legacy.expect_err("link").code(),
            "config_unsafe_file"
        );
        fs::remove_file(&path).expect("unlink");
        legacy(home.path(), &" ".repeat(LIMIT as usize + 1));
        assert_eq!(
            read(home.path()).legacy.expect_err("large").code(),
            "config_malformed"
        );
        legacy(home.path(), &" ".repeat(LIMIT as usize));
        assert!(read(home.path()).legacy.is_ok());
        let elsewhere = tempfile::tempdir().expect("second home");
        symlink(
            home.path().join(".deepseek-mcp"),
            elsewhere.path().join(".deepseek-mcp"),
        )
        .expect("link");
        assert_eq!(
            read(elsewhere.path())
                .legacy
                .expect_err("linked folder")
                .code(),
            "config_unsafe_file"
        );
    }

    #[test]
    fn our_file_may_be_a_link_but_not_writable_by_others() {
        let home = home();
        let dir = home.path().join(".config/delegate");
        fs::create_dir_all(&dir).expect("mkdir");
        let real = home.path().join("dotfile");
        fs::write(&real, "max_turns = 3\n").expect("write");
        mode(&real, 0o644);
        symlink(&real, dir.join("config.toml")).expect("link");
        assert_eq!(
            read(home.path()).own.expect("there").text,
            "max_turns = 3\n"
        );
        mode(&real, 0o664);
        let error = Sources::read(home.path(), BTreeMap::new()).expect_err("writable");
        assert_eq!(error.code(), "config_unsafe_file");
    }
}
