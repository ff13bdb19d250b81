//! What a jail costs, as ratios of medians of interleaved rounds.
//!
//! `cargo bench --bench spawn [-- --rounds N] [--json]`. Every round runs each
//! arm once, in an order that moves on by one, so that a slow spell of the
//! machine falls on all arms alike; only ratios within one run mean anything.
//! `bwrap` with the flags that agents use is timed where it is installed.

mod common;
#[path = "common/host.rs"]
mod host;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Arm, Bench};
use jail::{Form, Launcher, Policy, ProfileSet, Request};

fn main() {
    let bench = Bench::from_args("spawn", 300);
    let workspace = tempfile::tempdir().expect("a temporary workspace");
    let launcher = Launcher {
        program: env!("CARGO_BIN_EXE_delegate").into(),
    };
    let policy = policy(workspace.path());
    let granted = policy.grants.len();

    let mut arms = vec![
        Arm::new("true", || bare(&["/bin/true"])),
        Arm::new("bash", || bare(&["/bin/bash", "-c", ":"])),
    ];
    for (form, in_cell, opening) in [
        (Form::Full, "bash-full", "open-full"),
        (Form::Narrow, "bash-narrow", "open-narrow"),
    ] {
        let plan = match jail::prepare_form(&policy, form) {
            Ok(plan) => plan,
            Err(error) => {
                println!("skipped: {form} form: {error}");
                continue;
            }
        };
        match plan.open(&launcher) {
            Ok(cell) => arms.push(Arm::new(in_cell, move || jailed(&cell))),
            Err(error) => {
                println!("skipped: {form} form: {error}");
                continue;
            }
        }
        let launcher = launcher.clone();
        arms.push(Arm::new(opening, move || {
            let begun = Instant::now();
            let cell = plan.open(&launcher).expect("open a cell");
            let spent = begun.elapsed();
            drop(cell);
            spent
        }));
    }
    if let Some(bwrap) = find("bwrap") {
        let words = bwrap_words(&bwrap, workspace.path());
        let first: Vec<&str> = words.iter().map(String::as_str).collect();
        if status(&first) {
            arms.push(Arm::new("bash-bwrap", move || {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                bare(&words)
            }));
        } else {
            println!("skipped: bwrap cannot make its sandbox here");
        }
    } else {
        println!("skipped: bwrap is not installed");
    }

    let mut result = bench.run(arms);
    result.ratio("bash-full", "bash", Some(1.5));
    result.ratio("bash-narrow", "bash", Some(1.4));
    result.ratio("open-full", "true", Some(12.0));
    result.ratio("open-narrow", "true", None);
    result.ratio("bash-bwrap", "bash", None);
    result.fact("paths granted", granted as f64, None);
    result.finish();
}

/// The policy of the profile `bash` on a workspace, toolchains as found.
fn policy(workspace: &Path) -> Policy {
    let request = Request {
        profile: "bash".to_owned(),
        workspace: Some(workspace.to_owned()),
        ..Request::default()
    };
    jail::resolve(&ProfileSet::builtin(), &request, &host::host()).expect("the profile resolves")
}

/// Spawns with null descriptors and waits; std uses `posix_spawn` for this.
fn bare(words: &[&str]) -> Duration {
    let begun = Instant::now();
    let done = command(words).status().expect("spawn");
    let spent = begun.elapsed();
    assert!(done.success(), "{words:?} ended with {done}");
    spent
}

fn status(words: &[&str]) -> bool {
    command(words).status().is_ok_and(|done| done.success())
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The same command in an open cell, from the call to its report.
fn jailed(cell: &jail::Cell) -> Duration {
    let begun = Instant::now();
    let child = cell
        .spawn(jail::Command {
            argv: ["bash", "-c", ":"].map(OsString::from).to_vec(),
            env: Vec::new(),
            cwd: None,
            stdin: null(),
            stdout: null(),
            stderr: null(),
            deadline: None,
        })
        .expect("spawn in the cell");
    let report = child.wait().expect("a report");
    let spent = begun.elapsed();
    assert_eq!(report.exit, jail::Exit::Code(0));
    spent
}

fn null() -> OwnedFd {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .expect("open /dev/null")
        .into()
}

/// bubblewrap as agents call it: read-only root, own /dev, /proc and /tmp.
fn bwrap_words(bwrap: &Path, workspace: &Path) -> Vec<String> {
    let (bwrap, workspace) = (bwrap.display().to_string(), workspace.display().to_string());
    [
        bwrap.as_str(),
        "--new-session",
        "--die-with-parent",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
        "--bind",
        &workspace,
        &workspace,
        "--chdir",
        &workspace,
        "/bin/bash",
        "-c",
        ":",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn find(program: &str) -> Option<std::path::PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
