//! When the launcher dies, by whatever signal, nothing of a jail lives on.

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{delegate, forms, processes_with, workspace};
use rustix::process::{Pid, Signal, kill_process};

/// A tree that tries to stay: ignored signals, sessions of its own, a double
/// fork. Each of its processes carries the marker in its command line.
fn stubborn(marker: &str) -> String {
    format!(
        "trap '' TERM INT HUP; m={marker}; \
         sh -c 'trap \"\" TERM HUP; sleep 300; :' $m & \
         setsid sh -c 'trap \"\" TERM HUP; sleep 300; :' $m & \
         (setsid sh -c 'sleep 300; :' $m &) ; \
         echo up $TMPDIR; sleep 300; : $m"
    )
}

fn start(form: &str, marker: &str, workspace: &std::path::Path) -> (Child, PathBuf) {
    let mut child = Command::new(delegate())
        .args(["jail", "run", "bash", "--form", form, "--workspace"])
        .arg(workspace)
        .args(["--", "sh", "-c", &stubborn(marker)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .process_group(0)
        .spawn()
        .expect("spawn");
    let stdout = child.stdout.take().expect("piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("read");
    let tmp = line
        .trim_end()
        .strip_prefix("up ")
        .expect("the tree stands");
    (child, tmp.into())
}

fn wait_until_gone(marker: &str, within: Duration) -> Vec<String> {
    let end = Instant::now() + within;
    loop {
        let left = processes_with(marker);
        if left.is_empty() || Instant::now() > end {
            return left;
        }
        std::thread::yield_now();
    }
}

#[test]
fn nothing_of_a_jail_outlives_its_launcher() {
    for form in forms() {
        for signal in [Signal::KILL, Signal::TERM, Signal::INT] {
            let place = workspace();
            let marker = format!("dm-{}-{}-{}", std::process::id(), form, signal.as_raw());
            let (mut child, tmp) = start(&form, &marker, place.path());
            // The twin: they live while the launcher does.
            let end = Instant::now() + Duration::from_secs(10);
            while processes_with(&marker).len() < 4 {
                assert!(Instant::now() < end, "{form}: the tree never stood");
                std::thread::yield_now();
            }
            kill_process(Pid::from_child(&child), signal).expect("kill");
            let left = wait_until_gone(&marker, Duration::from_secs(1));
            assert_eq!(left, Vec::<String>::new(), "{form}, {signal:?}");
            child.wait().expect("wait");
            if form == "narrow" {
                let end = Instant::now() + Duration::from_secs(2);
                while tmp.exists() {
                    assert!(Instant::now() < end, "{} was left", tmp.display());
                    std::thread::yield_now();
                }
            }
        }
    }
}
