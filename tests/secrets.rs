//! No key of the server is in any process of a jail: not in the environment,
//! the arguments, the descriptors or (looked at as root) the memory.

mod common;
#[allow(dead_code, reason = "this file uses a part of it")]
#[path = "mcp_support/provider.rs"]
mod provider;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{delegate, workspace};
use provider::{Provider, Reply};
use serde_json::json;

const KEY: &str = "sk-canary-key-5d0c7f41";
const OTHER: &str = "canary-other-91b2e6aa";
const CONFIGURED: &str = "sk-canary-config-77ab310c";

/// Processes below `root`, itself left out.
fn descendants(root: u32) -> Vec<u32> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parents.insert(pid, parent.unwrap_or(0));
    }
    let below = |mut pid: u32| {
        while let Some(parent) = parents.get(&pid) {
            if *parent == root {
                return true;
            }
            pid = *parent;
        }
        false
    };
    parents.keys().copied().filter(|pid| below(*pid)).collect()
}

fn holds(hay: &[u8], needle: &str) -> bool {
    hay.windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

/// Where a process holds `needle`, in words.
fn found_in(pid: u32, needle: &str) -> Vec<String> {
    let proc = Path::new("/proc").join(pid.to_string());
    let mut found = Vec::new();
    for name in ["environ", "cmdline"] {
        if fs::read(proc.join(name)).is_ok_and(|bytes| holds(&bytes, needle)) {
            found.push(name.to_owned());
        }
    }
    for entry in fs::read_dir(proc.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let is_file =
            fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file() && meta.len() < 1 << 20);
        if is_file && fs::read(entry.path()).is_ok_and(|bytes| holds(&bytes, needle)) {
            found.push(format!(
                "descriptor {}",
                entry.file_name().to_string_lossy()
            ));
        }
    }
    if rustix::process::geteuid().is_root() && memory_holds(&proc, needle) {
        found.push("memory".to_owned());
    }
    found
}

/// Looks through what the process can write: a copied key would be there.
fn memory_holds(proc: &Path, needle: &str) -> bool {
    let (Ok(maps), Ok(memory)) = (
        fs::read_to_string(proc.join("maps")),
        File::open(proc.join("mem")),
    ) else {
        return false;
    };
    let mut budget: u64 = 256 << 20;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let Some((from, to)) = line
            .split_whitespace()
            .next()
            .and_then(|range| range.split_once('-'))
        else {
            continue;
        };
        let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
        else {
            continue;
        };
        let size = (to - from).min(budget);
        budget -= size;
        let mut bytes = vec![0; size as usize];
        let got = memory.read_at(&mut bytes, from).unwrap_or(0);
        if holds(&bytes[..got], needle) {
            return true;
        }
    }
    false
}

fn wait_for(path: &Path) {
    let end = Instant::now() + Duration::from_secs(30);
    while !path.exists() {
        assert!(Instant::now() < end, "{} never came", path.display());
        std::thread::yield_now();
    }
}

#[test]
fn no_key_of_the_server_is_in_any_process_of_a_jail() {
    let home = workspace();
    let place = workspace();
    let private = home.path().join(".deepseek-mcp");
    fs::create_dir(&private).expect("mkdir");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).expect("chmod");
    let config = private.join("config.json");
    fs::write(&config, json!({ "api_key": CONFIGURED }).to_string()).expect("write");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).expect("chmod");

    let hold = "env; touch up; while [ ! -e go ]; do sleep 0.02; done";
    let model = Provider::start(vec![
        Reply::Call(vec![("Bash".to_owned(), json!({ "command": hold }))]),
        Reply::Say("done".to_owned()),
    ]);
    let mut run = Command::new(delegate());
    run.args([
        "run",
        "hold still",
        "--model",
        "m",
        "--wire",
        "openai",
        "--key-env",
        "TEST_KEY",
        "--json",
    ])
    .args(["--base-url", &model.base_url, "--workspace"])
    .arg(place.path())
    .env("HOME", home.path())
    .env("TEST_KEY", KEY)
    .env("AWS_SECRET_ACCESS_KEY", OTHER)
    .stdin(Stdio::null())
    .stdout(Stdio::piped())
    .stderr(Stdio::piped());
    let mut server = run.spawn().expect("spawn");
    wait_for(&place.path().join("up"));

    // The twin: the server itself holds the key, where this test would see it.
    let own = found_in(server.id(), KEY);
    if rustix::process::geteuid().is_root() {
        assert_eq!(own, ["environ", "memory"]);
    } else {
        // Not even to its own user.
        assert_eq!(own, Vec::<String>::new());
        eprintln!("skipped: memory of the jailed processes: needs root to look at");
    }
    let jailed = descendants(server.id());
    assert!(jailed.len() >= 3, "worker, cell and command: {jailed:?}");
    for pid in jailed {
        for needle in [KEY, OTHER, CONFIGURED] {
            assert_eq!(
                found_in(pid, needle),
                Vec::<String>::new(),
                "process {pid} and {needle}"
            );
        }
    }
    fs::write(place.path().join("go"), "").expect("write");
    let mut out = String::new();
    server
        .stdout
        .take()
        .expect("piped")
        .read_to_string(&mut out)
        .expect("read");
    let mut err = String::new();
    server
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut err)
        .expect("read");
    assert!(server.wait().expect("wait").success(), "{out}{err}");
    for needle in [KEY, OTHER, CONFIGURED] {
        assert!(
            !out.contains(needle) && !err.contains(needle),
            "{needle} was printed"
        );
    }
    assert!(
        out.contains("PATH="),
        "the command's env is in the result: {out}"
    );
}
