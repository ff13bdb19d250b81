//! This user and machine, as the command line would describe them.

use std::path::Path;

use jail::{Host, Policy, ProfileSet, Request};

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

/// The policy of the profile `bash` on a workspace, toolchains as found.
pub fn policy(workspace: &Path) -> Policy {
    let request = Request {
        profile: "bash".to_owned(),
        workspace: Some(workspace.to_owned()),
        ..Request::default()
    };
    jail::resolve(&ProfileSet::builtin(), &request, &host()).expect("the profile resolves")
}
