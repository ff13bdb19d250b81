use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::policy::{Grant, Link, Network, Observe, Origin};

fn policy(workspace: &Path) -> Policy {
    let origin = Origin {
        source: "test".to_owned(),
        line: 1,
        reason: String::new(),
    };
    Policy {
        name: "test".to_owned(),
        workspace: Some(workspace.to_path_buf()),
        cwd: workspace.to_path_buf(),
        grants: vec![Grant {
            path: workspace.to_path_buf(),
            source: None,
            access: Access::all(),
            kind: Kind::Dir,
            dev: 0,
            ino: 0,
            origin,
        }],
        links: vec![Link {
            path: "/alias".into(),
            target: workspace.to_path_buf(),
        }],
        empty_dirs: vec!["/root".into()],
        scratch: vec!["/tmp".into()],
        protect: Vec::new(),
        hide: Vec::new(),
        network: Network::Off,
        env: Vec::new(),
        limits: crate::policy::Limits::default(),
        deadline: None,
        observe: Observe::Writes,
        relax: Vec::new(),
        floor: std::collections::BTreeMap::new(),
    }
}

fn seen(path: &Path, access: Access, operation: &str) -> Denial {
    Denial {
        path: path.to_path_buf(),
        access,
        operation: operation.to_owned(),
        count: 1,
    }
}

#[test]
fn links_of_the_policy_and_of_the_workspace_are_followed() {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    let workspace = base.join("ws");
    fs::create_dir_all(workspace.join("sub")).expect("mkdir");
    symlink("../outside", workspace.join("out")).expect("link");
    symlink("sub", workspace.join("in")).expect("link");
    let policy = policy(&workspace);
    assert_eq!(
        locate(&policy, Path::new("/alias/in/x")),
        workspace.join("sub/x")
    );
    assert_eq!(
        locate(&policy, &workspace.join("out/x")),
        base.join("outside/x")
    );
    assert_eq!(
        locate(&policy, Path::new("/a/../alias/./y")),
        workspace.join("y")
    );
    // The host has a link there, but the jail shows nothing of it.
    symlink(&workspace, base.join("unseen")).expect("link");
    assert_eq!(
        locate(&policy, &base.join("unseen/z")),
        base.join("unseen/z")
    );
}

#[test]
fn a_refusal_is_told_from_failures_of_other_kinds() {
    // Not below /tmp, which is private in the policy.
    let dir = tempfile::tempdir_in("/var/tmp").expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    let workspace = base.join("ws");
    fs::create_dir_all(base.join("beside")).expect("mkdir");
    fs::create_dir_all(&workspace).expect("mkdir");
    fs::write(base.join("beside/file"), "").expect("write");
    symlink("../beside", workspace.join("link")).expect("link");
    let policy = policy(&workspace);
    let write = Access::WRITE;
    let all = [
        seen(&base.join("beside/new"), write, "open"),
        seen(&base.join("beside/new"), write, "open"),
        seen(&workspace.join("link/new"), write, "open"),
        seen(&base.join("beside/file"), Access::READ, "open"),
        // Of these, none is the jail's doing.
        seen(&workspace.join("mine"), write, "open"),
        seen(&base.join("no/such/folder/new"), write, "open"),
        seen(&base.join("beside/none"), Access::READ, "open"),
        seen(Path::new("/dev/null"), write, "open"),
        seen(Path::new("/proc/self/oom_score_adj"), write, "open"),
        seen(Path::new("/tmp/own"), write, "open"),
        seen(&base, Access::READ, "open"),
    ];
    let kept: Vec<_> = refused(&policy, &all)
        .into_iter()
        .map(|denial| (denial.path, denial.count))
        .collect();
    assert_eq!(
        kept,
        [
            (base.join("beside/new"), 2),
            (workspace.join("link/new"), 1),
            (base.join("beside/file"), 1),
        ]
    );
}

#[test]
fn a_write_to_the_hosts_folder_below_a_private_tmp_is_a_refusal() {
    let dir = tempfile::tempdir_in("/tmp").expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    fs::create_dir_all(base.join("host")).expect("mkdir");
    fs::create_dir_all(base.join("ws")).expect("mkdir");
    let policy = policy(&base.join("ws"));
    let target = base.join("host/denied-here");
    let write = Access::WRITE;
    assert_eq!(refused(&policy, &[seen(&target, write, "open")]).len(), 1);
    assert_eq!(
        refused(&policy, &[seen(&base.join("ws/x"), write, "open")]),
        []
    );
}

#[test]
fn addresses_are_kept_and_sockets_only_where_the_host_has_them() {
    let dir = tempfile::tempdir().expect("tempdir");
    let policy = policy(dir.path());
    let socket = dir.path().join("s");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bind");
    let all = [
        seen(Path::new("tcp:192.0.2.1:80"), Access::WRITE, "connect"),
        seen(
            Path::new(&format!("unix:{}", socket.display())),
            Access::WRITE,
            "connect",
        ),
        seen(Path::new("unix:/no/such/socket"), Access::WRITE, "connect"),
    ];
    assert_eq!(refused(&policy, &all), all[..2]);
}
