//! Programs as people run them, inside `delegate jail run bash`: what has to
//! work works, what has to be refused is refused, and the same script outside
//! the jail shows that the attempt was real.
//!
//! Each script under `tests/sandbox` has three phases: `setup` on the host,
//! `run` in the jail, `check` on the host. They run in the full form, since the
//! narrow one does not promise all of this.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::delegate;

/// Only the system's programs, so that the test depends on nobody's home.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct Stage {
    _dir: tempfile::TempDir,
    script: PathBuf,
    workspace: PathBuf,
    home: PathBuf,
    report: PathBuf,
}

struct Seen {
    status: Option<i32>,
    result: String,
    log: String,
    check: String,
    took: Duration,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().canonicalize().expect("canonical");
        let workspace = base.join("replay/ws");
        let home = base.join("home");
        fs::create_dir_all(&workspace).expect("mkdir");
        // Something to find: canaries where credentials lie.
        for path in [
            ".ssh/id_rsa",
            ".aws/credentials",
            ".netrc",
            ".config/gh/hosts.yml",
            ".codex/auth.json",
        ] {
            let path = home.join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            fs::write(path, "canary\n").expect("write");
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/sandbox")
            .join(name);
        let stage = Stage {
            script,
            workspace,
            home,
            report: base.join("report.json"),
            _dir: dir,
        };
        let setup = stage.on_host("setup");
        assert!(setup.status.success(), "setup: {}", text(&setup));
        stage
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.workspace)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    fn on_host(&self, phase: &str) -> Output {
        let mut host = self.workspace.clone().into_os_string();
        host.push(".host");
        self.command(Path::new("bash"))
            .arg(&self.script)
            .arg(phase)
            .env("REPLAY_HOST", host)
            .output()
            .expect("bash")
    }

    fn run(&self, inside: bool) -> Seen {
        let copy = self.workspace.join(".replay-script.sh");
        fs::copy(&self.script, &copy).expect("copy");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("mode");
        let mut command = if inside {
            let mut command = self.command(&delegate());
            command
                .args([
                    "jail",
                    "run",
                    "bash",
                    "--form",
                    "full",
                    "--deadline",
                    "120",
                    "--report",
                ])
                .arg(&self.report)
                .args(["--", "bash", ".replay-script.sh"]);
            command
        } else {
            let mut command = self.command(Path::new("bash"));
            command.arg(".replay-script.sh");
            command
        };
        command.env("REPLAY_SECRET_TOKEN", "replay-canary-value");
        let start = Instant::now();
        let output = command.output().expect("starts");
        let took = start.elapsed();
        fs::remove_file(&copy).expect("remove");
        let log = text(&output);
        let result = log
            .lines()
            .rfind(|line| line.starts_with("RESULT="))
            .and_then(|line| line["RESULT=".len()..].split(' ').next())
            .unwrap_or_default()
            .to_owned();
        let check = String::from_utf8_lossy(&self.on_host("check").stdout)
            .lines()
            .rfind(|line| line.starts_with("CHECK="))
            .and_then(|line| line["CHECK=".len()..].split(' ').next())
            .unwrap_or_default()
            .to_owned();
        Seen {
            status: output.status.code(),
            result,
            log,
            check,
            took,
        }
    }
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Whether this machine can run the script at all; if not, a counted line.
fn can_run(name: &str, needs: &[&str]) -> bool {
    for program in needs.iter().chain(&["bash"]) {
        let there = std::env::split_paths(PATH).any(|dir| dir.join(program).is_file());
        if !there {
            println!("skipped: sandbox {name}: no {program} in {PATH}");
            return false;
        }
    }
    if let Err(why) = jail::survey().full {
        println!("skipped: sandbox {name}: full form: {why}");
        return false;
    }
    true
}

/// What has to work: where it fails inside, it is the jail's fault only if it
/// works outside.
fn works(name: &str, needs: &[&str]) {
    if !can_run(name, needs) {
        return;
    }
    let inside = Stage::new(name).run(true);
    if inside.result == "ok" && inside.status == Some(0) {
        return;
    }
    let outside = Stage::new(name).run(false);
    if outside.result != "ok" {
        println!("skipped: sandbox {name}: it fails outside a jail too");
        return;
    }
    panic!("{name} works outside and not inside:\n{}", inside.log);
}

/// What has to be refused: it succeeds outside, and inside it does not.
fn refused(name: &str, want: &str) -> Option<(Stage, Seen)> {
    if !can_run(name, &["python3", "git"]) {
        return None;
    }
    let outside = Stage::new(name).run(false);
    assert_eq!(outside.result, "leak", "outside:\n{}", outside.log);
    let stage = Stage::new(name);
    let inside = stage.run(true);
    assert_eq!(inside.result, want, "inside:\n{}", inside.log);
    Some((stage, inside))
}

#[test]
fn git_commits_in_the_workspace() {
    works("01-git-commit-plain.sh", &["git"]);
}

#[test]
fn git_commits_in_a_linked_worktree_and_the_main_one_stays() {
    refused("02-git-linked-worktree.sh", "ok");
}

#[test]
fn python_multiprocessing_works() {
    works("03-py-multiprocessing.sh", &["python3"]);
}

#[test]
fn unix_sockets_among_the_jails_own_work() {
    works("04-unix-socket-ipc.sh", &["python3"]);
}

#[test]
fn loopback_servers_work() {
    works("05-loopback-server.sh", &["python3"]);
}

#[test]
fn temporary_files_and_here_documents_work() {
    works("06-tmpdir-heredoc.sh", &["python3"]);
}

#[test]
fn the_workspace_is_one_file_system() {
    works("07-rename-link-xdir.sh", &["python3"]);
}

#[test]
fn device_nodes_and_terminals_work() {
    works("08-dev-nodes-pty.sh", &["python3"]);
}

#[test]
fn no_trick_writes_outside() {
    if let Some((_, inside)) = refused("09-write-outside-tricks.sh", "denied") {
        assert_eq!(inside.check, "clean", "{}", inside.log);
    }
}

#[test]
fn no_secret_is_readable() {
    if let Some((_, inside)) = refused("11-env-proc-secrets.sh", "denied") {
        assert_eq!(inside.check, "clean", "{}", inside.log);
        assert!(!inside.log.contains("canary-value"));
    }
}

#[test]
fn nothing_outlives_its_call() {
    let name = "14-daemon-outlives.sh";
    if !can_run(name, &["python3"]) {
        return;
    }
    // Outside, the survivors hold the pipes, so output goes nowhere.
    let stage = Stage::new(name);
    let status = stage
        .command(Path::new("bash"))
        .arg(&stage.script)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("bash");
    assert!(status.success());
    let check = stage.on_host("check");
    assert!(
        text(&check).contains("CHECK=leak"),
        "outside: {}",
        text(&check)
    );

    let inside = Stage::new(name).run(true);
    assert_eq!(
        (inside.result.as_str(), inside.check.as_str()),
        ("ok", "clean"),
        "{}",
        inside.log
    );
    assert!(inside.took < Duration::from_secs(15), "{:?}", inside.took);
}

#[test]
fn exit_statuses_are_the_commands_and_only_the_real_denial_is_reported() {
    let Some((stage, inside)) = refused("15-exit-code-diagnostics.sh", "denied") else {
        return;
    };
    assert_eq!(inside.status, Some(42), "{}", inside.log);
    assert_eq!(inside.check, "clean");
    let report = fs::read_to_string(&stage.report).expect("report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let denials = report["denials"].as_array().expect("denials");
    assert_eq!(denials.len(), 1, "{report:#}");
    let mut path = stage.workspace.clone().into_os_string();
    path.push(".host/denied-here");
    assert_eq!(
        denials[0]["path"].as_str().map(Path::new),
        Some(Path::new(&path))
    );
    assert_eq!(denials[0]["operation"], "open");
    assert_eq!(report["status"], 42);
}
