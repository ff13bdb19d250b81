//! What the resolver has to know of this process: home, PATH, environment,
//! login name.

use std::path::PathBuf;

use nix::unistd::{Uid, User};

/// This host and user, from the environment and, where that is silent, from
/// the user database.
pub fn this_host() -> jail::Host {
    let user = User::from_uid(Uid::effective()).ok().flatten();
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute())
        .or_else(|| user.as_ref().map(|user| user.dir.clone()))
        .unwrap_or_else(|| PathBuf::from("/"));
    // The database and not USER: `su` and `sudo` leave the caller's name there.
    let name = user.map_or_else(|| Uid::effective().to_string(), |user| user.name);
    let path = std::env::var_os("PATH").map_or_else(
        || {
            vec![
                PathBuf::from("/usr/local/bin"),
                PathBuf::from("/usr/bin"),
                PathBuf::from("/bin"),
            ]
        },
        |path| std::env::split_paths(&path).collect(),
    );
    jail::Host {
        home,
        path,
        env: std::env::vars_os().collect(),
        user: name,
    }
}

/// The folder of the user's own profiles.
pub fn user_profiles() -> Option<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| {
            let home = this_host().home;
            home.parent().is_some().then(|| home.join(".config"))
        })?;
    Some(config.join("delegate/profiles"))
}

/// The program that becomes the first process of a cell: this one.
pub fn launcher() -> std::io::Result<jail::Launcher> {
    Ok(jail::Launcher {
        program: std::env::current_exe()?,
    })
}
