//! `delegate jail run`, driven through the binary: status, streams, report and
//! end of a command.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use common::forms;
use common::scene::{Scene, Seen};
use serde_json::Value;

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
fn a_floor_that_a_form_does_not_reach_stops_it() {
    let scene = Scene::new();
    for form in forms() {
        let seen = scene.sh(&form, &["--json", "--floor", "metadata"], "echo ran");
        if form == "narrow" {
            assert_eq!((seen.status, seen.out.as_str()), (125, ""), "{seen:?}");
            assert_eq!(seen.report()["error"]["code"], "jail_below_floor");
        } else {
            assert_eq!((seen.status, seen.out.as_str()), (0, "ran\n"), "{seen:?}");
        }
        assert_eq!(scene.sh(&form, &["--floor", "reads"], "exit 0").status, 0);
    }
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

#[test]
fn root_too_can_have_only_so_many_processes() {
    if !common::forms().contains(&"full".to_owned()) {
        return;
    }
    let place = common::workspace();
    let home = common::workspace();
    let profiles = home.path().join(".config/delegate/profiles");
    std::fs::create_dir_all(&profiles).expect("mkdir");
    let own = "name = \"few\"\nextends = [\"bash\"]\n[limits]\nprocesses = 60\n";
    std::fs::write(profiles.join("few.toml"), own).expect("write");
    let count = "for i in $(seq 700); do sleep 20 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l";
    let count = |profile: &str| -> u32 {
        let output = std::process::Command::new(common::delegate())
            .args(["jail", "run", profile, "--form", "full", "--workspace"])
            .arg(place.path())
            .args(["--", "bash", "-c", count])
            .env("HOME", home.path())
            .output()
            .expect("run");
        let text = String::from_utf8_lossy(&output.stdout);
        // A shell that cannot fork at all says nothing: that is a bound as well.
        text.lines()
            .last()
            .and_then(|line| line.trim().parse().ok())
            .unwrap_or(0)
    };
    assert!(count("few") <= 70, "a bound of 60");
    assert!(count("bash") >= 700, "the twin: a bound of 4096");
}

#[test]
fn a_workspace_that_is_no_utf_8_ends_and_says_why() {
    use std::os::unix::ffi::OsStrExt;
    let place = common::workspace();
    let odd = place.path().join(std::ffi::OsStr::from_bytes(b"bad\xff"));
    std::fs::create_dir(&odd).expect("mkdir");
    let output = std::process::Command::new(common::delegate())
        .args(["jail", "run", "bash", "--workspace"])
        .arg(&odd)
        .args(["--", "true"])
        .output()
        .expect("run");
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(!output.stderr.is_empty());
}
