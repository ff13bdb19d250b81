//! The cell: what a call sees, how it ends, and that nothing is left of it.
//! Each denial stands beside the same act outside the jail.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jail::{
    Access, Cell, Command, Exit, Form, Grant, JailError, Kind, Launcher, Link, Observe, Origin,
    Policy, Report,
};

fn launcher() -> Launcher {
    let program = std::env::var_os("DELEGATE_TEST_BINARY")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_delegate").into());
    Launcher {
        program: program.into(),
    }
}

fn grant(path: &Path, access: Access) -> Grant {
    let meta = fs::metadata(path).expect("a granted path exists");
    Grant {
        path: path.to_owned(),
        source: None,
        access,
        kind: if meta.is_dir() { Kind::Dir } else { Kind::File },
        dev: meta.dev(),
        ino: meta.ino(),
        origin: Origin {
            source: "test".to_owned(),
            line: 0,
            reason: "test".to_owned(),
        },
    }
}

/// System folders read-only and one writable workspace.
fn policy(workspace: &Path) -> Policy {
    let mut policy = Policy::empty();
    policy.name = "test".to_owned();
    for dir in ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"] {
        let path = Path::new(dir);
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_symlink() => policy.links.push(Link {
                path: path.to_owned(),
                target: fs::read_link(path).expect("readlink"),
            }),
            Ok(_) => policy
                .grants
                .push(grant(path, Access::READ | Access::EXECUTE)),
            Err(_) => {}
        }
    }
    policy.grants.push(grant(workspace, Access::all()));
    policy.scratch = vec![PathBuf::from("/tmp")];
    policy.cwd = workspace.to_owned();
    policy.workspace = Some(workspace.to_owned());
    policy.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    policy.limits.processes = Some(128);
    policy.observe = Observe::Writes;
    policy.floor = BTreeMap::new();
    policy
}

struct Place {
    _dir: tempfile::TempDir,
    workspace: PathBuf,
    outside: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().expect("tempdir");
    let base = dir.path().canonicalize().expect("canonical");
    let workspace = base.join("ws");
    let outside = base.join("outside");
    fs::create_dir(&workspace).expect("mkdir");
    fs::create_dir(&outside).expect("mkdir");
    fs::write(outside.join("secret"), "canary").expect("write");
    Place {
        _dir: dir,
        workspace,
        outside,
    }
}

/// The forms that this machine has; a form that it lacks is a counted line.
fn forms() -> Vec<Form> {
    let survey = jail::survey();
    let mut forms = Vec::new();
    for (form, available) in [(Form::Full, &survey.full), (Form::Narrow, &survey.narrow)] {
        match available {
            Ok(()) => forms.push(form),
            Err(why) => eprintln!("skipped: {form} form: {why}"),
        }
    }
    assert!(!forms.is_empty(), "no form at all: {survey:?}");
    forms
}

fn open(policy: &Policy, form: Form) -> Cell {
    jail::prepare_form(policy, form)
        .expect("plan")
        .open(&launcher())
        .expect("cell")
}

fn null() -> OwnedFd {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .expect("/dev/null")
        .into()
}

/// Runs a shell line and gives its output and report.
fn sh(cell: &Cell, line: &str) -> (String, Report) {
    sh_for(cell, line, Duration::from_secs(20))
}

fn sh_for(cell: &Cell, line: &str, deadline: Duration) -> (String, Report) {
    let (mut reader, writer) = std::io::pipe().expect("pipe");
    let copy = writer.try_clone().expect("dup");
    let child = cell
        .spawn(Command {
            argv: vec!["sh".into(), "-c".into(), line.into()],
            env: Vec::new(),
            cwd: None,
            stdin: null(),
            stdout: writer.into(),
            stderr: copy.into(),
            deadline: Some(deadline),
        })
        .expect("spawn");
    let reader = std::thread::spawn(move || {
        let mut out = Vec::new();
        reader.read_to_end(&mut out).expect("read");
        String::from_utf8_lossy(&out).into_owned()
    });
    let report = child.wait().expect("report");
    (reader.join().expect("reader"), report)
}

#[test]
fn a_call_runs_reads_its_workspace_and_gives_its_exit_status() {
    for form in forms() {
        let place = place();
        fs::write(place.workspace.join("in"), "hello").expect("write");
        let cell = open(&policy(&place.workspace), form);
        let (out, report) = sh(&cell, "cat in && echo made > out && exit 7");
        assert_eq!(out, "hello", "{form}");
        assert_eq!(report.exit, Exit::Code(7), "{form}");
        assert_eq!(
            fs::read_to_string(place.workspace.join("out")).expect("made"),
            "made\n"
        );
    }
}

#[test]
fn what_is_not_granted_can_be_neither_read_nor_written() {
    for form in forms() {
        let place = place();
        let mut policy = policy(&place.workspace);
        let line = format!(
            "cat {0}/secret; echo x > {0}/new; echo x >> {0}/secret",
            place.outside.display()
        );
        let (out, report) = sh(&open(&policy, form), &line);
        assert!(!out.contains("canary"), "{form}: {out}");
        assert!(!place.outside.join("new").exists(), "{form}");
        assert_eq!(
            fs::read_to_string(place.outside.join("secret")).expect("read"),
            "canary"
        );
        let refused: Vec<_> = report
            .denials
            .iter()
            .map(|denial| denial.path.clone())
            .collect();
        assert_eq!(
            refused,
            [place.outside.join("new"), place.outside.join("secret")],
            "{form}"
        );

        // The twin: the same line with the grant.
        policy
            .grants
            .push(grant(&place.outside, Access::READ | Access::WRITE));
        let (out, report) = sh(&open(&policy, form), &line);
        assert_eq!(out, "canary", "{form}");
        assert!(place.outside.join("new").exists(), "{form}");
        assert_eq!(report.denials, [], "{form}");
    }
}

#[test]
fn nothing_that_a_call_leaves_lives_on_and_the_call_does_not_wait_for_it() {
    for form in forms() {
        let place = place();
        let cell = open(&policy(&place.workspace), form);
        let started = Instant::now();
        let (out, report) = sh(
            &cell,
            "(trap '' TERM HUP; sleep 61) & setsid sh -c 'sleep 62' & (setsid sh -c 'sleep 63 & sleep 64' &) ; echo $!; sleep 0.2",
        );
        assert!(
            started.elapsed() < Duration::from_secs(15),
            "{form}: waited for background children"
        );
        assert!(!out.is_empty());
        assert!(report.survivors >= 3, "{form}: {report:?}");
        // The cell is usable afterwards and sees none of them.
        let (out, _) = sh(&cell, "cat /proc/*/cmdline | tr '\\0' ' '");
        if form == Form::Full {
            assert!(!out.contains("sleep 6"), "{form}: {out}");
        }
    }
}

#[test]
fn a_deadline_ends_the_whole_tree() {
    for form in forms() {
        let place = place();
        let cell = open(&policy(&place.workspace), form);
        let (_, report) = sh_for(
            &cell,
            "trap '' TERM; (sleep 65 &); sleep 66; :",
            Duration::from_millis(300),
        );
        assert_eq!(report.exit, Exit::Deadline, "{form}");
        // At most the two sleeps; the shell itself is not left behind.
        assert!(report.survivors <= 2, "{form}: {report:?}");
        let (_, report) = sh(&cell, "true");
        assert_eq!(report.exit, Exit::Code(0), "{form}");
    }
}

#[test]
fn a_killer_ends_its_call_and_no_later_one() {
    for form in forms() {
        let place = place();
        let cell = open(&policy(&place.workspace), form);
        let command = |line: &str| Command {
            argv: vec!["sh".into(), "-c".into(), line.into()],
            env: Vec::new(),
            cwd: None,
            stdin: null(),
            stdout: null(),
            stderr: null(),
            deadline: None,
        };
        let child = cell.spawn(command("sleep 67")).expect("spawn");
        let killer = child.killer();
        assert!(matches!(cell.spawn(command("true")), Err(JailError::Busy)));
        killer.kill();
        assert_eq!(
            child.wait().expect("report").exit,
            Exit::Cancelled,
            "{form}"
        );
        let child = cell.spawn(command("exit 3")).expect("spawn");
        killer.kill();
        assert_eq!(child.wait().expect("report").exit, Exit::Code(3), "{form}");
    }
}

#[test]
fn a_program_that_is_not_there_is_said_so_and_the_cell_stays_usable() {
    for form in forms() {
        let place = place();
        let cell = open(&policy(&place.workspace), form);
        let error = cell
            .spawn(Command {
                argv: vec!["no-such-program".into()],
                env: Vec::new(),
                cwd: None,
                stdin: null(),
                stdout: null(),
                stderr: null(),
                deadline: None,
            })
            .expect_err("nothing to execute");
        assert_eq!(error.code(), "jail_exec_failed");
        assert_eq!(sh(&cell, "echo on").0, "on\n", "{form}");
    }
}

#[test]
fn a_folder_swapped_after_the_policy_was_built_is_not_shown() {
    let survey = jail::survey();
    if let Err(why) = &survey.full {
        eprintln!("skipped: full form: {why}");
        return;
    }
    let place = place();
    let policy = policy(&place.workspace);
    fs::rename(&place.workspace, place.workspace.with_extension("old")).expect("rename");
    fs::create_dir(&place.workspace).expect("mkdir");
    let error = jail::prepare_form(&policy, Form::Full)
        .expect("plan")
        .open(&launcher())
        .expect_err("another folder");
    assert_eq!(error.code(), "jail_path_changed");
}

#[test]
fn the_private_root_holds_nothing_but_the_grants() {
    if let Err(why) = &jail::survey().full {
        eprintln!("skipped: full form: {why}");
        return;
    }
    let place = place();
    let cell = open(&policy(&place.workspace), Form::Full);
    let (out, _) = sh(
        &cell,
        "ls -A /; ls /etc 2>&1; id -u; cat /proc/1/environ | wc -c; ls /proc | grep -c '^[0-9]'",
    );
    let uid = rustix::process::getuid().as_raw().to_string();
    for name in ["home", "root", "etc", "var", "boot"] {
        assert!(!out.lines().any(|line| line == name), "{name} in {out}");
    }
    assert!(out.lines().any(|line| line == uid), "{out}");
    let (out, _) = sh(
        &cell,
        "echo x > /new; echo x > /dev/new; echo 1 > /proc/sys/kernel/core_uses_pid; echo $?",
    );
    assert_eq!(
        out.lines().last(),
        Some("2").or(Some("1")).filter(|_| !out.ends_with("0\n")),
        "{out}"
    );
}

#[test]
fn beside_a_workspace_in_a_private_tmp_nothing_can_be_made() {
    for form in forms() {
        let place = place();
        let mut policy = policy(&place.workspace);
        // What `resolve` adds for a workspace below a scratch folder.
        policy.empty_dirs = vec![place.workspace.parent().expect("a parent").to_owned()];
        let cell = open(&policy, form);
        let (_, report) = sh(&cell, "echo x > ../beside");
        assert_ne!(report.exit, Exit::Code(0), "{form}");
        // The twins: in the workspace, and in the private folder itself.
        let (_, report) = sh(&cell, "echo x > inside && echo x > \"${TMPDIR:-/tmp}/own\"");
        assert_eq!(report.exit, Exit::Code(0), "{form}");
    }
}

#[test]
fn root_or_not_no_capability_and_no_new_privilege_is_left() {
    for form in forms() {
        let place = place();
        let cell = open(&policy(&place.workspace), form);
        let (out, _) = sh(
            &cell,
            "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status",
        );
        for line in out.lines() {
            let value = line.split_whitespace().nth(1).expect("a value");
            match line.split(':').next() {
                Some("NoNewPrivs") => assert_eq!(value, "1"),
                Some("Seccomp") => assert_eq!(value, "2"),
                Some("CapBnd") if form == Form::Narrow && !rustix::process::geteuid().is_root() => {
                }
                Some(name) => assert_eq!(value, "0000000000000000", "{form}: {name}"),
                None => panic!("no field in {line}"),
            }
        }
        assert_eq!(out.lines().count(), 7, "{form}: {out}");
    }
}
