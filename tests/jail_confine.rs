//! What `delegate jail run` keeps away, by profile. Each refusal stands beside
//! the same act outside the jail, or with the grant that allows it.

mod common;

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use common::forms;
use common::scene::{Scene, Seen};

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
fn a_private_home_lasts_and_real_toolchains_are_seen_in_it() {
    let scene = Scene::new();
    let bin = scene.home.join(".cargo/bin");
    fs::create_dir_all(&bin).expect("mkdir");
    fs::write(bin.join("mytool"), "#!/bin/sh\necho ran\n").expect("write");
    fs::set_permissions(bin.join("mytool"), fs::Permissions::from_mode(0o755)).expect("mode");
    let private = scene.home.join("state/home");
    // Left by an earlier call that tried to lead us elsewhere.
    fs::create_dir_all(&private).expect("mkdir");
    symlink(&scene.beside, private.join(".cargo")).expect("link");
    let request = jail::Request {
        profile: "bash".to_owned(),
        workspace: Some(scene.ws.clone()),
        private_home: Some(private.clone()),
        ..jail::Request::default()
    };
    let host = jail::Host {
        home: scene.home.clone(),
        path: vec![bin, "/usr/bin".into(), "/bin".into()],
        env: Vec::new(),
        user: "test".to_owned(),
    };
    let policy = jail::resolve(&jail::ProfileSet::builtin(), &request, &host).expect("policy");
    assert_eq!(fs::read_dir(&scene.beside).expect("list").count(), 1);
    for form in forms() {
        let form = if form == "full" {
            jail::Form::Full
        } else {
            jail::Form::Narrow
        };
        let plan = jail::prepare_form(&policy, form).expect("plan");
        let launcher = jail::Launcher {
            program: common::delegate(),
        };
        let cell = plan.open(&launcher).expect("cell");
        let sh = |line: &str| {
            let null = || {
                fs::File::options()
                    .read(true)
                    .write(true)
                    .open("/dev/null")
                    .expect("null")
                    .into()
            };
            let command = jail::Command {
                argv: vec!["sh".into(), "-c".into(), line.into()],
                env: Vec::new(),
                cwd: None,
                stdin: null(),
                stdout: null(),
                stderr: null(),
                deadline: None,
            };
            cell.spawn(command)
                .expect("spawn")
                .wait()
                .expect("wait")
                .exit
        };
        let ok = jail::Exit::Code(0);
        assert_eq!(sh("echo $$ >~/.cache/kept && mytool"), ok, "{form}");
        assert_eq!(sh("test -s ~/.cache/kept"), ok, "{form}");
        assert!(private.join(".cache/kept").is_file(), "{form}");
        assert_ne!(sh("echo x >$CARGO_HOME/bin/mytool"), ok, "{form}");
        fs::remove_file(private.join(".cache/kept")).expect("remove");
    }
    assert!(!scene.home.join(".cache").exists());
}
