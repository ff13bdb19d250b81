//! One table of questions, asked of the policy (`jail explain --path`) and of
//! the kernel (the act itself, in the jail): the answers have to agree.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{delegate, forms};

struct Scene {
    _dir: tempfile::TempDir,
    home: PathBuf,
    ws: PathBuf,
}

/// A home with a repository as the workspace, secrets, links and neighbours.
fn scene() -> Scene {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    let home = base.join("home");
    let ws = home.join("ws");
    for name in [
        "ws/.git/objects",
        "ws/.git/refs",
        "ws/.git/hooks",
        "ws/.git/info",
        "ws/sub",
        "beside",
        "shared/deep",
        "bin",
    ] {
        fs::create_dir_all(home.join(name)).expect("mkdir");
    }
    for name in [
        "ws/file",
        "ws/.envrc",
        "ws/.git/HEAD",
        "ws/.git/config",
        "beside/file",
        "shared/deep/file",
        ".config/app/settings",
        ".config/gh/hosts.yml",
        ".ssh/id_rsa",
        ".cache/real",
    ] {
        let path = home.join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        fs::write(path, "text\n").expect("write");
    }
    for name in ["ws/run", "beside/run", "bin/run"] {
        fs::write(home.join(name), "#!/bin/sh\nexit 0\n").expect("write");
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(0o755)).expect("mode");
    }
    symlink("../beside", ws.join("out")).expect("link");
    symlink("sub", ws.join("in")).expect("link");
    symlink("../.ssh/id_rsa", ws.join("key")).expect("link");
    Scene {
        _dir: dir,
        home,
        ws,
    }
}

/// Landlock alone cannot take a secret out of a granted folder, so there the
/// folder of one program is named.
fn config(form: &str) -> String {
    let folder = if form == "full" { "" } else { "/app" };
    format!("read:~/.config{folder}")
}

fn command(scene: &Scene, verb: &str, form: &str) -> Command {
    let mut command = Command::new(delegate());
    command
        .args(["jail", verb, "bash", "--form", form])
        .args(["--allow", &config(form), "--allow", "write:../shared/deep"])
        .current_dir(&scene.ws)
        .env_clear()
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin", scene.home.join("bin").display()),
        )
        .env("HOME", &scene.home)
        .stdin(Stdio::null());
    command
}

fn said(scene: &Scene, form: &str, path: &Path, access: &str) -> bool {
    let status = command(scene, "explain", form)
        .args(["--access", access, "--path"])
        .arg(path)
        .stdout(Stdio::null())
        .status()
        .expect("delegate");
    match status.code() {
        Some(0) => true,
        Some(1) => false,
        other => panic!("{other:?} for {access} on {}", path.display()),
    }
}

fn done(scene: &Scene, form: &str, path: &Path, access: &str) -> bool {
    let act = match access {
        "read" => "if [ -d \"$1\" ]; then ls \"$1\"; else cat \"$1\"; fi",
        "write" => ": >>\"$1\"",
        _ => "\"$1\"",
    };
    command(scene, "run", form)
        .args(["--observe", "off", "--", "sh", "-c", act, "sh"])
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("delegate")
        .success()
}

/// Paths that begin with `~` are in the home.
const QUESTIONS: &[(&str, &str)] = &[
    ("read", "~/ws/file"),
    ("read", "~/ws/.git/config"),
    ("read", "~/ws/out/file"),
    ("read", "~/ws/key"),
    ("read", "~/ws/in"),
    ("read", "~/beside/file"),
    ("read", "~/beside"),
    ("read", "~/shared/deep/file"),
    ("read", "~/.config/app/settings"),
    ("read", "~/.config/gh/hosts.yml"),
    ("read", "~/.ssh/id_rsa"),
    ("read", "~/bin/run"),
    ("read", "/etc/passwd"),
    ("read", "/etc/fstab"),
    ("read", "/usr/bin/env"),
    ("read", "/bin/sh"),
    ("read", "/proc/self/status"),
    ("write", "~/ws/new"),
    ("write", "~/ws/in/new"),
    ("write", "~/ws/out/new"),
    ("write", "~/ws/.git/index.lock"),
    ("write", "~/beside/new"),
    ("write", "~/beside/file"),
    ("write", "~/shared/new"),
    ("write", "~/shared/deep/new"),
    ("write", "~/.config/app/settings"),
    ("write", "~/new"),
    ("write", "~/bin/run"),
    ("write", "/etc/delegate-test-canary"),
    ("write", "/usr/delegate-test-canary"),
    ("write", "/var/tmp/delegate-test-canary"),
    ("write", "/dev/null"),
    ("execute", "~/ws/run"),
    ("execute", "~/beside/run"),
    ("execute", "~/bin/run"),
    ("execute", "/usr/bin/true"),
    ("execute", "/bin/true"),
];

/// What only a private root can hold: protection, hiding, private folders.
const FULL_ONLY: &[(&str, &str)] = &[
    ("read", "~/.cache/real"),
    ("write", "~/ws/.git/config"),
    ("write", "~/ws/.git/hooks/pre-commit"),
    ("write", "~/ws/.git/info/attributes"),
    ("write", "~/ws/.envrc"),
    ("write", "~/.cache/new"),
    ("write", "/tmp/new"),
];

#[test]
fn the_policy_and_the_kernel_give_the_same_answers() {
    for form in forms() {
        let mut questions = QUESTIONS.to_vec();
        if form == "full" {
            questions.extend(FULL_ONLY);
        }
        let mut allowed = 0;
        let mut wrong = Vec::new();
        for (access, path) in &questions {
            let scene = scene();
            let path = match path.strip_prefix("~/") {
                Some(rest) => scene.home.join(rest),
                None => PathBuf::from(path),
            };
            let said = said(&scene, &form, &path, access);
            let done = done(&scene, &form, &path, access);
            allowed += usize::from(done);
            // A private folder has nothing of the host's in it: what is said
            // to be allowed there is the access, not that something exists.
            let empty = *access == "read" && path.ends_with(".cache/real");
            if said != done && !empty {
                wrong.push(format!(
                    "{form}: {access} {}: policy {said}, kernel {done}",
                    path.display()
                ));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        // A scene that allowed everything or nothing would agree by itself.
        assert!(
            (10..questions.len() - 10).contains(&allowed),
            "{allowed} of {}",
            questions.len()
        );
    }
}

#[test]
fn the_narrow_form_refuses_to_start_where_it_would_show_a_secret() {
    let scene = scene();
    for form in forms() {
        let output = Command::new(delegate())
            .args([
                "jail",
                "run",
                "bash",
                "--form",
                &form,
                "--allow",
                "read:~/.config",
            ])
            .args(["--", "cat"])
            .arg(scene.home.join(".config/gh/hosts.yml"))
            .current_dir(&scene.ws)
            .env("HOME", &scene.home)
            .output()
            .expect("delegate");
        assert!(output.stdout.is_empty(), "{form}");
        if form == "narrow" {
            assert_eq!(output.status.code(), Some(125));
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(error.contains("reads must be enforced"), "{error}");
        }
    }
}
