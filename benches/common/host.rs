//! This user and machine, as the command line would describe them.

use jail::Host;

/// The host of the caller's own environment.
pub fn host() -> Host {
    Host {
        home: std::env::home_dir().expect("a home"),
        path: std::env::var_os("PATH")
            .map(|path| std::env::split_paths(&path).collect())
            .unwrap_or_default(),
        env: std::env::vars_os().collect(),
        user: std::env::var("USER").unwrap_or_else(|_| "user".to_owned()),
    }
}
