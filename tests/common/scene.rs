//! A home directory made for one test, with a workspace, a neighbour and a
//! secret, and the commands that are run in it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::delegate;

pub struct Scene {
    _dir: tempfile::TempDir,
    pub home: PathBuf,
    pub ws: PathBuf,
    pub beside: PathBuf,
}

impl Scene {
    pub fn new() -> Scene {
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

    pub fn command(&self, args: &[&str]) -> Command {
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

    pub fn run(&self, args: &[&str]) -> Seen {
        Seen::of(self.command(args).output().expect("delegate"))
    }

    /// `sh -c LINE` in the profile `bash`, in one form.
    pub fn sh(&self, form: &str, flags: &[&str], line: &str) -> Seen {
        let mut args = vec!["bash", "--form", form];
        args.extend(flags);
        args.extend(["--", "sh", "-c", line]);
        self.run(&args)
    }

    /// The same line without a jail.
    pub fn outside(&self, line: &str) -> Seen {
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
pub struct Seen {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Seen {
    pub fn of(output: Output) -> Seen {
        Seen {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The report of `--json`: the last line of stderr.
    pub fn report(&self) -> Value {
        let line = self.err.lines().last().expect("a report");
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", self.err))
    }
}
