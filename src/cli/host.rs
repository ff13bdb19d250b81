//! What the commands take from the process they run in: environment, home,
//! state folder. Read here once and handed down by parameter.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::exit::Exit;
use crate::config::{ConfigError, Sources};

/// The environment as text; a variable that is no UTF-8 names no setting.
pub fn env() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The home folder: `HOME`, or the user database where a host passes none.
pub fn home() -> Result<PathBuf, ConfigError> {
    std::env::home_dir()
        .filter(|home| home.is_absolute())
        .ok_or_else(|| ConfigError::BadValue {
            name: "HOME".to_owned(),
            place: "environment".to_owned(),
            wanted: "the absolute path of your home folder".to_owned(),
            got: "not known".to_owned(),
        })
}

/// Where delegate keeps what outlives a process: `DELEGATE_STATE_DIR`, else
/// `delegate` below `XDG_STATE_HOME` or `~/.local/state`.
pub fn state_dir() -> Result<PathBuf, ConfigError> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if let Some(path) = absolute("DELEGATE_STATE_DIR") {
        return Ok(path);
    }
    let base = match absolute("XDG_STATE_HOME") {
        Some(base) => base,
        None => home()?.join(".local/state"),
    };
    Ok(base.join("delegate"))
}

/// Environment and files of the configuration.
pub fn sources() -> Result<Sources, ConfigError> {
    Sources::read(&home()?, env())
}

/// Writes to stdout; a reader that has gone away is a clean end.
pub fn print(text: &str) -> ExitCode {
    if written(text) {
        Exit::Done.into()
    } else {
        Exit::Failed.into()
    }
}

/// As [`print`], for a command that has an exit status of its own.
pub fn written(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => true,
        Err(error) => {
            say(&format!("delegate: cannot write the output: {error}"));
            false
        }
    }
}

/// One line on stderr. Not `eprintln!`, which panics when nobody reads.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
