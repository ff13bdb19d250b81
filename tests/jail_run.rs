//! `delegate jail run`, driven through the binary. Each refusal stands beside
//! the same act outside the jail, or with the grant that allows it.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{delegate, forms};
use serde_json::Value;

struct Scene {
    _dir: tempfile::TempDir,
    home: PathBuf,
    ws: PathBuf,
    beside: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().canonicalize().expect("canonical");
        let home = base.join("home");
        let ws = home.join("ws");
        let beside = home.join("beside");
        for dir in [&ws, &beside, &home.join(".ssh")] {
            fs::create_dir_all(dir).expect("mkdir");
        }
        fs::write(home.join(".ssh/id_rsa"), "canary").expect("write");
        fs::write(beside.join("file"), "neighbour").expect("write");
        Scene {
            _dir: dir,
            home,
            ws,
            beside,
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(delegate());
        command
            .args(["jail", "run"])
            .args(args)
            .current_dir(&self.ws)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.home)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Seen {
        Seen::of(self.command(args).output().expect("delegate"))
    }

    /// `sh -c LINE` in the profile `bash`, in one form.
    fn sh(&self, form: &str, flags: &[&str], line: &str) -> Seen {
        let mut args = vec!["bash", "--form", form];
        args.extend(flags);
        args.extend(["--", "sh", "-c", line]);
        self.run(&args)
    }

    /// The same line without a jail.
    fn outside(&self, line: &str) -> Seen {
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(&self.ws)
            .env("HOME", &self.home)
            .output()
            .expect("sh");
        Seen::of(output)
    }
}

#[derive(Debug)]
struct Seen {
    status: i32,
    out: String,
    err: String,
}

impl Seen {
    fn of(output: Output) -> Seen {
        Seen {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The report of `--json`: the last line of stderr.
    fn report(&self) -> Value {
        let line = self.err.lines().last().expect("a report");
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", self.err))
    }
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    let scene = Scene::new();
    for form in forms() {
        for (line, status) in [
            ("exit 0", 0),
            ("exit 42", 42),
            ("exit 125", 125),
            ("kill -TERM $$", 143),
            ("kill -KILL $$", 137),
        ] {
            let seen = scene.sh(&form, &[], line);
            assert_eq!(seen.status, status, "{form} {line}: {seen:?}");
            assert_eq!(seen.err, "", "nothing to tell about {line}");
        }
        let slow = scene.sh(&form, &["--deadline", "0.2"], "sleep 60");
        assert_eq!(slow.status, 124, "{slow:?}");
        assert!(slow.err.contains("killed at its deadline"), "{slow:?}");
        let none = scene.run(&["bash", "--form", &form, "--", "no-such-program"]);
        assert_eq!(none.status, 127, "{none:?}");
        fs::write(scene.ws.join("plain"), "").expect("write");
        let plain = scene.run(&["bash", "--form", &form, "--", "./plain"]);
        assert_eq!(plain.status, 126, "{plain:?}");
    }
}

#[test]
fn without_a_jail_nothing_runs_and_the_status_is_125() {
    let scene = Scene::new();
    for args in [
        &["nowhere", "--", "touch", "ran"][..],
        &["bash", "--workspace", "/", "--", "touch", "ran"],
        &["bash", "--allow", "read:/", "--", "touch", "ran"],
        &[
            "bash",
            "--report",
            "/no/such/folder/r",
            "--",
            "touch",
            "ran",
        ],
    ] {
        let seen = scene.run(args);
        assert_eq!(seen.status, 125, "{seen:?}");
        assert!(seen.err.starts_with("delegate: "), "{seen:?}");
        assert_eq!(seen.out, "");
    }
    let home = scene.home.display().to_string();
    let seen = scene.run(&["bash", "--json", "--workspace", &home, "--", "touch", "ran"]);
    assert_eq!(seen.report()["error"]["code"], "workspace_refused");
    assert!(!scene.ws.join("ran").exists());
    assert_eq!(scene.run(&["bash", "--", "touch", "ran"]).status, 0);
    assert!(scene.ws.join("ran").exists());
}

#[test]
fn stdin_passes_and_stdout_is_the_commands_alone() {
    let scene = Scene::new();
    for form in forms() {
        let line = "cat; echo to-err >&2; echo x >../beside/new";
        let mut child = scene
            .command(&["bash", "--form", &form, "--json", "--", "sh", "-c", line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("delegate");
        child
            .stdin
            .take()
            .expect("stdin")
            .write_all(b"through\0\xff")
            .expect("write");
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.stdout, b"through\0\xff");
        let seen = Seen::of(output);
        assert!(seen.err.starts_with("to-err\n"), "{seen:?}");
        let report = seen.report();
        assert_eq!(report["profile"], "bash");
        assert_eq!(report["enforcement"]["form"], form.as_str());
        assert_eq!(
            report["denials"].as_array().map(Vec::len),
            Some(1),
            "{report:#}"
        );
    }
}

#[test]
fn the_report_goes_to_a_file_that_the_command_cannot_swap() {
    let scene = Scene::new();
    let victim = scene.beside.join("file");
    symlink("nothing", scene.ws.join("other")).expect("link");
    let line = format!("rm report.json; ln -s {} report.json", victim.display());
    let seen = scene.run(&["bash", "--report", "report.json", "--", "sh", "-c", &line]);
    assert_eq!((seen.status, seen.err.as_str()), (0, ""));
    assert_eq!(fs::read_to_string(&victim).expect("read"), "neighbour");

    let seen = scene.run(&["bash", "--report", "../r.json", "--", "sh", "-c", "exit 3"]);
    assert_eq!((seen.status, seen.err.as_str()), (3, ""));
    let text = fs::read_to_string(scene.home.join("r.json")).expect("report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&report["status"], &report["denials"]),
        (&3.into(), &Value::Array(Vec::new()))
    );
}

#[test]
fn files_outside_are_refused_reported_and_opened_by_the_grant_that_is_named() {
    let scene = Scene::new();
    let write = "echo x >../beside/new";
    let read = "cat ../beside/file";
    let beside = scene.beside.display();
    for form in forms() {
        let seen = scene.sh(&form, &[], write);
        assert_ne!(seen.status, 0, "{seen:?}");
        assert!(!scene.beside.join("new").exists());
        let told = format!("the jail refused open {beside}/new");
        assert!(seen.err.contains(&told), "{form}: {seen:?}");
        assert!(
            seen.err.contains(&format!("--allow read+write:{beside}"))
                || seen.err.contains(&format!("--allow write:{beside}")),
            "{form}: {seen:?}"
        );
        assert_ne!(scene.sh(&form, &[], read).status, 0);

        let allow = format!("write:{beside}");
        assert_eq!(scene.sh(&form, &["--allow", &allow], write).status, 0);
        fs::remove_file(scene.beside.join("new")).expect("was written");
        let seen = scene.sh(&form, &["--allow", "read:../beside"], read);
        assert_eq!((seen.status, seen.out.as_str()), (0, "neighbour"));
        assert_ne!(
            scene
                .sh(&form, &["--allow", "read:../beside"], write)
                .status,
            0
        );
    }
    assert_eq!(scene.outside(write).status, 0);
}

#[test]
fn reads_are_reported_when_they_are_asked_for() {
    let scene = Scene::new();
    for form in forms() {
        let seen = scene.sh(
            &form,
            &["--observe", "all", "--json"],
            "cat ../beside/file ./missing; ls / >/dev/null; true",
        );
        let report = seen.report();
        let paths: Vec<_> = report["denials"]
            .as_array()
            .expect("denials")
            .iter()
            .map(|denial| denial["path"].clone())
            .collect();
        assert!(
            paths.contains(&Value::from(
                scene.beside.join("file").display().to_string()
            )),
            "{form}: {report:#}"
        );
        assert!(
            !paths
                .iter()
                .any(|path| path.as_str().is_some_and(|path| path.ends_with("missing"))),
            "{form}: {report:#}"
        );
        let seen = scene.sh(
            &form,
            &["--observe", "off", "--json"],
            "echo x >../beside/new",
        );
        assert_eq!(seen.report()["denials"], Value::Array(Vec::new()));
    }
}

#[test]
fn secrets_of_the_home_stay_until_a_person_names_one() {
    let scene = Scene::new();
    let line = "cat ~/.ssh/id_rsa";
    let key = scene.home.join(".ssh/id_rsa");
    let line_by_path = format!("cat {}", key.display());
    symlink(&key, scene.ws.join("link")).expect("link");
    for form in forms() {
        for line in [
            line,
            &line_by_path,
            "cat link",
            "cat /proc/self/root/$PWD/../.ssh/id_rsa",
        ] {
            let seen = scene.sh(&form, &[], line);
            assert!(
                seen.status != 0 && !seen.out.contains("canary"),
                "{form} {line}: {seen:?}"
            );
        }
        let seen = scene.sh(&form, &["--allow", "read:~/.ssh/id_rsa"], &line_by_path);
        assert_eq!(
            (seen.status, seen.out.as_str()),
            (0, "canary"),
            "{form}: {seen:?}"
        );
    }
    assert_eq!(scene.outside(line).out, "canary");
    assert_eq!(scene.outside("cat link").out, "canary");
}

#[test]
fn the_environment_is_what_the_profile_lists_and_a_person_names() {
    let scene = Scene::new();
    for form in forms() {
        let run = |flags: &[&str]| {
            let mut args = vec!["bash", "--form", form.as_str()];
            args.extend(flags);
            args.extend(["--", "env"]);
            let output = scene
                .command(&args)
                .env("MY_API_KEY", "k-value")
                .env("PLAIN", "p-value")
                .env("LC_ALL", "C")
                .output()
                .expect("delegate");
            Seen::of(output).out
        };
        let env = run(&[]);
        assert!(
            env.contains("LC_ALL=C\n") && env.contains("DELEGATE_JAIL=1\n"),
            "{env}"
        );
        assert!(
            !env.contains("k-value") && !env.contains("p-value"),
            "{env}"
        );
        let env = run(&["--env", "MY_API_KEY", "--env", "GIVEN=g=h"]);
        assert!(
            env.contains("MY_API_KEY=k-value\n") && env.contains("GIVEN=g=h\n"),
            "{env}"
        );
    }
}

#[test]
fn readonly_changes_nothing_and_tools_runs_nothing() {
    let scene = Scene::new();
    fs::write(scene.ws.join("file"), "text").expect("write");
    for form in forms() {
        let readonly =
            |line: &str| scene.run(&["readonly", "--form", &form, "--", "sh", "-c", line]);
        assert_eq!(readonly("cat file").out, "text");
        for line in [
            "echo x >file",
            "rm file",
            "mkdir d",
            "mv file g",
            "ln file g",
        ] {
            let seen = readonly(line);
            assert_ne!(seen.status, 0, "{form} {line}: {seen:?}");
        }
        assert_eq!(
            fs::read_to_string(scene.ws.join("file")).expect("read"),
            "text"
        );
        assert_eq!(scene.sh(&form, &[], "cp file g && rm g").status, 0);
        for profile in ["tools", "tools-readonly"] {
            let seen = scene.run(&[profile, "--form", &form, "--", "/bin/sh", "-c", "exit 0"]);
            assert!(
                [126, 127].contains(&seen.status),
                "{form} {profile}: {seen:?}"
            );
        }
    }
}

#[test]
fn what_git_obeys_on_the_host_stays_as_it_is() {
    let scene = Scene::new();
    if !forms().contains(&"full".to_owned()) {
        return;
    }
    for dir in ["objects", "refs", "hooks", "info"] {
        fs::create_dir_all(scene.ws.join(".git").join(dir)).expect("mkdir");
    }
    fs::write(scene.ws.join(".git/config"), "[core]\n").expect("write");
    fs::write(scene.ws.join(".envrc"), "").expect("write");
    let refused = [
        "echo x >.git/hooks/pre-commit",
        "echo x >>.git/config",
        "echo x >.git/info/attributes",
        "mv .git g2",
        "rm -r .git",
        "ln -s .git/hooks s && echo x >s/post-checkout",
        "echo x >>.envrc",
        "rm .envrc",
    ];
    for line in refused {
        let seen = scene.sh("full", &[], line);
        assert_ne!(seen.status, 0, "{line}: {seen:?}");
    }
    assert_eq!(
        fs::read_to_string(scene.ws.join(".git/config")).expect("read"),
        "[core]\n"
    );
    assert_eq!(
        fs::read_dir(scene.ws.join(".git/hooks"))
            .expect("list")
            .count(),
        0
    );
    for line in [
        "echo x >.git/index.lock && mv .git/index.lock .git/index",
        "mkdir -p .git/objects/aa",
    ] {
        let seen = scene.sh("full", &[], line);
        assert_eq!(seen.status, 0, "{line}: {seen:?}");
    }
    assert_eq!(
        scene
            .outside("echo x >.git/hooks/pre-commit && echo x >>.envrc")
            .status,
        0
    );
}

#[test]
fn the_network_is_off_but_for_a_loopback_of_its_own() {
    let scene = Scene::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("address").port();
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo in >&3");
    let run = |form: &str, net: &str| {
        scene.run(&[
            "bash", "--form", form, "--net", net, "--", "bash", "-c", &line,
        ])
    };
    for form in forms() {
        let seen = run(&form, "off");
        assert_ne!(seen.status, 0, "{form}: {seen:?}");
        let seen = run(&form, "open");
        assert_eq!(seen.status, 0, "{form}: {seen:?}");
        let mut text = String::new();
        let (mut stream, _) = listener.accept().expect("accept");
        stream.read_to_string(&mut text).expect("read");
        assert_eq!(text, "in\n");
    }
}

#[test]
fn the_home_is_empty_read_only_and_has_private_folders() {
    let scene = Scene::new();
    fs::create_dir(scene.home.join(".cache")).expect("mkdir");
    fs::write(scene.home.join(".cache/real"), "canary").expect("write");
    for form in forms() {
        let real = scene.home.display();
        let seen = scene.sh(&form, &[], &format!("echo x >{real}/direct"));
        assert_ne!(seen.status, 0, "{form}: {seen:?}");
        let seen = scene.sh(
            &form,
            &[],
            "mkdir -p ~/.cache/a && echo x >~/.cache/a/b && cat ~/.cache/a/b; cat ~/.cache/real",
        );
        assert_eq!(seen.out, "x\n", "{form}: {seen:?}");
        let seen = scene.sh(
            &form,
            &[],
            "echo x >$TMPDIR/t && cat $TMPDIR/t && echo x >/var/tmp/delegate-test-canary",
        );
        assert_eq!(seen.out, "x\n", "{form}: {seen:?}");
        assert_ne!(seen.status, 0);
    }
    assert!(!scene.home.join("direct").exists());
    assert!(!scene.home.join(".cache/a").exists());
    assert!(!Path::new("/var/tmp/delegate-test-canary").exists());
}

#[test]
fn programs_in_the_home_run_through_the_toolchain_that_owns_them() {
    let scene = Scene::new();
    let bin = scene.home.join(".cargo/bin");
    let stuff = scene.home.join("stuff");
    fs::create_dir_all(&bin).expect("mkdir");
    fs::create_dir_all(&stuff).expect("mkdir");
    for path in [bin.join("mytool-1"), stuff.join("other")] {
        fs::write(&path, "#!/bin/sh\necho ran\n").expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
    }
    symlink("mytool-1", bin.join("mytool")).expect("link");
    fs::write(
        scene.home.join(".cargo/credentials.toml"),
        "token = \"canary\"",
    )
    .expect("write");
    let path = format!("{}:{}:/usr/bin:/bin", bin.display(), stuff.display());
    for form in forms() {
        let run = |line: &str| {
            let mut command = scene.command(&["bash", "--form", &form, "--", "sh", "-c", line]);
            Seen::of(command.env("PATH", &path).output().expect("delegate"))
        };
        assert_eq!(run("mytool").out, "ran\n", "{form}");
        assert_ne!(run("other").status, 0, "{form}");
        assert_ne!(
            run(&format!("echo x >>{}/mytool-1", bin.display())).status,
            0,
            "{form}"
        );
        let secret = run(&format!(
            "cat {}/.cargo/credentials.toml",
            scene.home.display()
        ));
        assert!(
            secret.status != 0 && !secret.out.contains("canary"),
            "{form}: {secret:?}"
        );
    }
}

#[test]
fn a_signal_ends_the_command_and_its_tree() {
    let scene = Scene::new();
    for form in forms() {
        let line = "trap '' TERM INT; echo started; sleep 600 & wait; sleep 600";
        let mut child = scene
            .command(&["bash", "--form", &form, "--", "sh", "-c", line])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("delegate");
        let mut out = child.stdout.take().expect("stdout");
        let mut started = [0; 8];
        out.read_exact(&mut started).expect("started");
        let killed = Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .expect("kill");
        assert!(killed.success());
        assert_eq!(child.wait().expect("ends").code(), Some(143), "{form}");
        // The pipe closes only when nobody in the jail holds it any more.
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("closed");
        assert_eq!(rest, "");
    }
}

#[test]
fn the_command_starts_in_the_callers_folder_of_the_workspace() {
    let scene = Scene::new();
    let sub = scene.ws.join("sub");
    fs::create_dir(&sub).expect("mkdir");
    for form in forms() {
        let mut command = scene.command(&[
            "bash",
            "--form",
            &form,
            "--workspace",
            "..",
            "--",
            "sh",
            "-c",
            "pwd -P; echo x >../up",
        ]);
        let seen = Seen::of(command.current_dir(&sub).output().expect("delegate"));
        assert_eq!(
            (seen.status, seen.out.trim_end()),
            (0, sub.to_str().expect("utf-8")),
            "{form}: {seen:?}"
        );
        // Without --workspace it is the folder itself, and its parent is outside.
        let mut command =
            scene.command(&["bash", "--form", &form, "--", "sh", "-c", "echo x >../up2"]);
        let seen = Seen::of(command.current_dir(&sub).output().expect("delegate"));
        assert_ne!(seen.status, 0, "{form}: {seen:?}");
    }
}

#[test]
fn names_chosen_inside_do_not_write_on_the_terminal() {
    let scene = Scene::new();
    for form in forms() {
        let seen = scene.sh(
            &form,
            &[],
            "printf x >\"$(printf '../beside/a\\033]0;title\\007b')\"",
        );
        assert_ne!(seen.status, 0);
        let told = seen
            .err
            .lines()
            .find(|line| line.starts_with("delegate: "))
            .expect("told");
        assert!(
            !told.contains('\u{1b}') && !told.contains('\u{7}'),
            "{form}: {told:?}"
        );
    }
}
